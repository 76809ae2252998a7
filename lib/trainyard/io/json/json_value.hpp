#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/io/json/findings.hpp"
#include "trainyard/io/json/json_parser.hpp"

namespace trainyard::detail {

/// One value of a parsed JSON text, with its position and its key.
struct JsonNode {
  std::string_view key;  // empty for elements of arrays and the root
  // Characters of a string; a number, true, false or null as written.
  std::string_view text;
  std::size_t key_begin = 0, begin = 0;
  std::uint32_t next = 0;  // index of the next node after this value and its contents
  JsonKind kind = JsonKind::null;
};

/// A parsed text as one array of nodes, in which the contents of each value follow it. Strings without escapes are
/// views of the text.
struct JsonTree {
  std::vector<JsonNode> nodes;
  std::deque<std::string> unescaped;
};

/// A value in a tree, as readers see it.
class JsonValue {
 public:
  JsonValue(const JsonTree& tree, std::uint32_t index) : tree_(&tree), index_(index) {}

  JsonKind kind() const { return node().kind; }
  std::string_view key() const { return node().key; }
  std::string_view text() const { return node().text; }
  std::size_t begin_offset() const { return node().begin; }
  std::size_t key_offset() const { return node().key_begin; }
  /// The member with this key; nothing if this is not an object or has none.
  std::optional<JsonValue> find(std::string_view key) const;
  std::size_t size() const;

  /// Members of an object or elements of an array, in the order of the text.
  class Children {
   public:
    class Iterator {
     public:
      Iterator(const JsonTree& tree, std::uint32_t index) : tree_(&tree), index_(index) {}
      JsonValue operator*() const { return {*tree_, index_}; }
      Iterator& operator++() { return index_ = tree_->nodes[index_].next, *this; }
      friend bool operator==(const Iterator& a, const Iterator& b) { return a.index_ == b.index_; }

     private:
      const JsonTree* tree_;
      std::uint32_t index_;
    };
    Children(const JsonTree& tree, std::uint32_t parent) : tree_(&tree), parent_(parent) {}
    Iterator begin() const { return {*tree_, parent_ + 1}; }
    Iterator end() const { return {*tree_, tree_->nodes[parent_].next}; }

   private:
    const JsonTree* tree_;
    std::uint32_t parent_;
  };
  Children children() const { return {*tree_, index_}; }

 private:
  const JsonNode& node() const { return tree_->nodes[index_]; }

  const JsonTree* tree_;
  std::uint32_t index_;
};

/// An array of the root object whose elements are passed to `each` one by one and then dropped, so that a large file
/// takes little memory beyond its text. `each` returns false to stop reading.
struct JsonStream {
  std::string_view key;
  std::function<bool(JsonValue root, JsonValue element)> each;
};

/// Parses a whole text, whose root must be an object. Syntax errors, repeated keys and nesting beyond 100 levels become
/// findings. Returns the root if the text could be read to its end.
std::optional<JsonValue> parse_json(std::string_view text, JsonTree& tree, FindingList& findings,
                                    const JsonStream& stream = {});

/// A JSON pointer and a byte offset of the same place. locate_json() fills in the missing one. For a pointer it finds
/// the offset of the value that the pointer names, or of the innermost existing value around it. For an offset it finds
/// the pointer of the value or key at the offset.
struct JsonPlace {
  std::string pointer;
  std::optional<std::size_t> offset;
};
void locate_json(std::string_view text, std::span<JsonPlace> places);

}  // namespace trainyard::detail
