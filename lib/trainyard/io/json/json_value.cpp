#include "trainyard/io/json/json_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

namespace trainyard::detail {
namespace {

/// Builds the tree from the parser's events.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, JsonTree& tree, FindingList& findings, const JsonStream& stream)
      : text_(text), tree_(tree), findings_(findings), stream_(stream), parser_(text, *this) {}

  /// Returns whether the text was read to its end.
  bool build() {
    const auto outcome = parser_.parse();
    if (outcome == JsonParser<TreeBuilder>::Outcome::wrong) report(explain_json(text_));
    return outcome == JsonParser<TreeBuilder>::Outcome::done;
  }

  bool value(JsonKind kind, std::size_t begin, std::string_view text) {
    add(kind, begin).text = kind == JsonKind::string ? keep(text) : text;
    return hand_out(static_cast<std::uint32_t>(tree_.nodes.size() - 1));
  }
  bool key(std::size_t begin, std::string_view text) {
    key_begin_ = begin;
    key_ = keep(text);
    return true;
  }
  bool open(JsonKind kind, std::size_t begin) {
    const bool streamed = open_.size() == 1 && kind == JsonKind::array && !stream_.key.empty() && key_ == stream_.key;
    add(kind, begin);
    open_.push_back(static_cast<std::uint32_t>(tree_.nodes.size() - 1));
    if (streamed) {
      streamed_depth_ = open_.size();
      kept_strings_ = tree_.unescaped.size();
    }
    if (open_.size() <= kDeepestJson) return true;
    findings_.add(begin, "json", fmt::format("values nest deeper than {} levels", kDeepestJson));
    return false;
  }
  bool close() {
    const std::uint32_t closed = open_.back();
    if (tree_.nodes[closed].kind == JsonKind::object)
      check_repeated_keys(closed);
    else if (open_.size() == streamed_depth_)
      streamed_depth_ = 0;
    tree_.nodes[closed].next = static_cast<std::uint32_t>(tree_.nodes.size());
    open_.pop_back();
    return hand_out(closed);
  }

 private:
  JsonNode& add(JsonKind kind, std::size_t begin) {
    JsonNode& node = tree_.nodes.emplace_back();
    node.kind = kind;
    node.begin = begin;
    node.key = key_;
    node.key_begin = key_.empty() && key_begin_ == 0 ? begin : key_begin_;
    node.next = static_cast<std::uint32_t>(tree_.nodes.size());
    key_ = {};
    key_begin_ = 0;
    return node;
  }

  /// If `element` completes an element of the streamed array, passes it on and drops it.
  bool hand_out(std::uint32_t element) {
    if (streamed_depth_ == 0 || open_.size() != streamed_depth_) return true;
    tree_.nodes[0].next = element;  // the root with the members that are kept
    if (!stream_.each(JsonValue{tree_, 0}, JsonValue{tree_, element})) return false;
    tree_.nodes.resize(element);
    tree_.unescaped.resize(kept_strings_);
    return true;
  }

  std::string_view keep(std::string_view text) {
    return parser_.copied() ? std::string_view{tree_.unescaped.emplace_back(text)} : text;
  }

  void report(const std::optional<JsonFault>& fault);
  void check_repeated_keys(std::uint32_t object);
  void repeated(const JsonNode& first, const JsonNode& second) {
    findings_.add(second.key_begin, "duplicate-key",
                  fmt::format("the key \"{}\" occurs twice in one object, first on line {}", second.key,
                              findings_.line_of(first.key_begin)),
                  "remove one of them");
  }

  std::string_view text_;
  JsonTree& tree_;
  FindingList& findings_;
  const JsonStream& stream_;
  JsonParser<TreeBuilder> parser_;
  std::vector<std::uint32_t> open_;
  std::string_view key_;
  std::size_t key_begin_ = 0;
  std::size_t streamed_depth_ = 0;
  std::size_t kept_strings_ = 0;
};

/// A 64-bit mask with one bit set, a function of the key. Most keys of one object in these formats have different bits.
std::uint64_t sketch_of(std::string_view key) {
  const auto letter = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(key[i])); };
  return std::uint64_t{1} << (key.empty() ? 0 : (letter(0) + 5 * letter(key.size() - 1) + 11 * key.size()) % 64);
}

void TreeBuilder::check_repeated_keys(std::uint32_t object) {
  const auto& nodes = tree_.nodes;
  const auto last = static_cast<std::uint32_t>(nodes.size());
  std::size_t members = 0;
  std::uint64_t sketches = 0;
  bool maybe_repeated = false;
  for (std::uint32_t i = object + 1; i < last; i = nodes[i].next) {
    const std::uint64_t sketch = sketch_of(nodes[i].key);
    maybe_repeated = maybe_repeated || (sketches & sketch) != 0;
    sketches |= sketch;
    ++members;
  }
  if (!maybe_repeated) return;
  constexpr std::size_t kFew = 24;
  if (members <= kFew) {
    for (std::uint32_t i = object + 1; i < last; i = nodes[i].next)
      for (std::uint32_t j = object + 1; j < i; j = nodes[j].next)
        if (nodes[i].key == nodes[j].key) {
          repeated(nodes[j], nodes[i]);
          break;
        }
    return;
  }
  std::unordered_map<std::string_view, std::uint32_t> seen;
  seen.reserve(members);
  for (std::uint32_t i = object + 1; i < last && !findings_.full(); i = nodes[i].next) {
    const auto [at, added] = seen.try_emplace(nodes[i].key, i);
    if (!added) repeated(nodes[at->second], nodes[i]);
  }
}

/// Turns the parser's error into a plain message.
void TreeBuilder::report(const std::optional<JsonFault>& fault) {
  if (!fault) throw std::logic_error("two parsers disagree on whether a text is JSON");
  if (constexpr int kOutOfRange = 406; fault->id == kOutOfRange)
    return findings_.add(parser_.begin_of_next(), "number",
                         fmt::format("the number {} is too large", fault->last_token), "the largest is 1.8e308");
  std::size_t at = fault->position == 0 ? 0 : fault->position - 1;
  std::string message = fault->message;
  if (at >= text_.size()) {
    at = text_.size();
    while (at > 0 && blank(text_[at - 1])) --at;
    const char* inside = "";
    if (message.find("missing closing quote") != std::string::npos)
      inside = " inside a string";
    else if (!open_.empty())
      inside = tree_.nodes[open_.back()].kind == JsonKind::object ? " inside an object" : " inside an array";
    const std::string opened =
        open_.empty() ? "" : fmt::format(" (opened on line {})", findings_.line_of(tree_.nodes[open_.back()].begin));
    return findings_.add(at, "json", fmt::format("the text ends{}{}", inside, opened),
                         "the file is cut short: write or copy it again");
  }
  const bool bad_character = message.find("invalid string") != std::string::npos;
  if (!bad_character) at = std::min(at, parser_.begin_of_next());
  const std::string_view before = text_.substr(0, at);
  const std::size_t last_before = before.find_last_not_of(" \t\r\n");
  const char previous = last_before == std::string_view::npos ? '\0' : before[last_before];
  const char found = text_[at];
  if (previous == ',' && (found == '}' || found == ']')) {
    findings_.add(
        at, "json",
        fmt::format("expected {} after the comma, found '{}'", found == '}' ? "a \"name\"" : "a value", found),
        fmt::format("JSON allows no comma before '{}'", found));
  } else if (found == '/' || found == '#') {
    findings_.add(at, "json", "JSON has no comments", "remove it, or write it as the value of a key \"comment\"");
  } else if (found == '\'') {
    findings_.add(at, "json", "strings and keys must be in double quotes", "write \" in place of '");
  } else if (const std::string_view rest = text_.substr(at); rest.starts_with("NaN") || rest.starts_with("nan") ||
                                                             rest.starts_with("Inf") || rest.starts_with("-Inf") ||
                                                             rest.starts_with("inf") || rest.starts_with("-inf")) {
    findings_.add(at, "json", "JSON has no NaN and no infinity", "give a number, or leave the key out");
  } else {
    // "[json.exception.parse_error.101] parse error at line 3, column 12: what; last read: '...'"
    if (const auto colon = message.find(": "); colon != std::string::npos) message.erase(0, colon + 2);
    if (const auto read = message.find("; last read"); read != std::string::npos) {
      const auto end = message.find("; expected", read);
      message.erase(read, end == std::string::npos ? end : end - read);
    }
    findings_.add(at, "json", "not valid JSON: " + message);
  }
}

}  // namespace

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (kind() != JsonKind::object) return std::nullopt;
  for (const JsonValue member : children())
    if (member.key() == key) return member;
  return std::nullopt;
}

std::size_t JsonValue::size() const {
  std::size_t count = 0;
  for (auto at = children().begin(), end = children().end(); !(at == end); ++at) ++count;
  return count;
}

std::optional<JsonValue> parse_json(std::string_view text, JsonTree& tree, FindingList& findings,
                                    const JsonStream& stream) {
  tree.nodes.clear();
  tree.unescaped.clear();
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    findings.add(0, "json", "the file is empty", "check that it is the right file");
    return std::nullopt;
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    findings.add(nul, "json", "the file holds a NUL byte: it is not text", "check that it is the right file");
    return std::nullopt;
  }
  if (!TreeBuilder{text, tree, findings, stream}.build()) return std::nullopt;
  const JsonValue root{tree, 0};
  if (root.kind() != JsonKind::object) {
    findings.add(root.begin_offset(), "type", "the file must hold one JSON object",
                 "begin it with { and end it with }");
    return std::nullopt;
  }
  return root;
}

}  // namespace trainyard::detail
