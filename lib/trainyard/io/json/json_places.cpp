#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "trainyard/io/json/json_parser.hpp"
#include "trainyard/io/json/json_value.hpp"

namespace trainyard::detail {
namespace {

/// Tracks the pointer of the current value along the text and fills in the requested places.
class PlaceFinder {
 public:
  explicit PlaceFinder(std::span<JsonPlace> places) {
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

  /// The offset of the innermost existing value along the pointer.
  std::optional<std::size_t> find(const std::string& pointer) const {
    for (std::size_t end = pointer.size();; end = pointer.rfind('/', end - 1)) {
      const auto at = prefixes_.find(pointer.substr(0, end));
      if (at != prefixes_.end() && at->second != std::string_view::npos) return at->second;
      if (end == 0) return std::nullopt;
    }
  }

  bool value(JsonKind, std::size_t begin, std::string_view) {
    visit(begin);
    return step();
  }
  bool key(std::size_t begin, std::string_view text) {
    levels_.back().token = pointer_token(text);
    note_offset(begin);
    return true;
  }
  bool open(JsonKind kind, std::size_t begin) {
    visit(begin);
    levels_.emplace_back().array = kind == JsonKind::array;
    return levels_.size() <= kDeepestJson;
  }
  bool close() {
    levels_.pop_back();
    return step();
  }

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
  bool step() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
    return true;
  }

  std::multimap<std::size_t, JsonPlace*> by_offset_;
  std::unordered_map<std::string, std::size_t> prefixes_;
  std::vector<Level> levels_;
};

}  // namespace

void locate_json(std::string_view text, std::span<JsonPlace> places) {
  PlaceFinder finder{places};
  JsonParser{text, finder}.parse();
  for (JsonPlace& place : places)
    if (!place.offset) place.offset = finder.find(place.pointer);
}

}  // namespace trainyard::detail
