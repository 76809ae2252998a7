#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "trainyard/io/json_tokens.hpp"
#include "trainyard/io/json_value.hpp"

namespace trainyard::detail {
namespace {

using nlohmann::json;

/// Follows keys and indices through the text and notes the places asked for.
class PlaceFinder {
 public:
  PlaceFinder(std::string_view text, std::span<JsonPlace> places) : places_(text) {
    for (JsonPlace& place : places) {
      if (place.offset)
        by_offset_.emplace(*place.offset, &place);
      else
        for (std::size_t end = place.pointer.size();; end = place.pointer.rfind('/', end - 1)) {
          prefixes_.try_emplace(place.pointer.substr(0, end), std::string_view::npos);
          if (end == 0) break;
        }
    }
  }

  /// The offset of the innermost existing value on the pointer's way.
  std::optional<std::size_t> find(const std::string& pointer) const {
    for (std::size_t end = pointer.size();; end = pointer.rfind('/', end - 1)) {
      const auto at = prefixes_.find(pointer.substr(0, end));
      if (at != prefixes_.end() && at->second != std::string_view::npos) return at->second;
      if (end == 0) return std::nullopt;
    }
  }

  bool null() { return leaf(places_.take_word(4)); }
  bool boolean(bool value) { return leaf(places_.take_word(value ? 4 : 5)); }
  bool number_integer(json::number_integer_t) { return leaf(places_.take_number()); }
  bool number_unsigned(json::number_unsigned_t) { return leaf(places_.take_number()); }
  bool number_float(json::number_float_t, const std::string&) { return leaf(places_.take_number()); }
  bool binary(json::binary_t&) { return false; }
  bool string(std::string& value) { return leaf(places_.take_string(value.size())); }
  bool key(std::string& value) {
    const std::size_t begin = places_.take_string(value.size());
    levels_.back().token = pointer_token(value);
    note_offset(begin);
    return true;
  }
  bool start_object(std::size_t) { return open(false); }
  bool start_array(std::size_t) { return open(true); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

 private:
  struct Level {
    bool array = false;
    std::size_t index = 0;
    std::string token;
  };

  std::string pointer() const {
    std::string all;
    for (const Level& level : levels_) all += "/" + (level.array ? std::to_string(level.index) : level.token);
    return all;
  }
  void note_offset(std::size_t begin) {
    const auto [first, last] = by_offset_.equal_range(begin);
    for (auto at = first; at != last; ++at) at->second->pointer = pointer();
  }
  void visit(std::size_t begin) {
    if (levels_.size() <= kDeepestJson) {
      const auto at = prefixes_.find(pointer());
      if (at != prefixes_.end() && at->second == std::string_view::npos) at->second = begin;
    }
    note_offset(begin);
  }
  bool leaf(std::size_t begin) {
    visit(begin);
    return step();
  }
  bool open(bool array) {
    visit(places_.take_symbol());
    levels_.emplace_back().array = array;
    return levels_.size() <= kDeepestJson;
  }
  bool close() {
    places_.take_symbol();
    levels_.pop_back();
    return step();
  }
  bool step() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
    return true;
  }

  TokenPlaces places_;
  std::multimap<std::size_t, JsonPlace*> by_offset_;
  std::unordered_map<std::string, std::size_t> prefixes_;
  std::vector<Level> levels_;
};

}  // namespace

void locate_json(std::string_view text, std::span<JsonPlace> places) {
  PlaceFinder finder{text, places};
  walk_json(text, finder);
  for (JsonPlace& place : places)
    if (!place.offset) place.offset = finder.find(place.pointer);
}

}  // namespace trainyard::detail
