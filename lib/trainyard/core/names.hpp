#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainyard {

/// One string per id, stored in one block of text of less than 2^32 bytes: each takes 4 bytes plus its text.
template <class IdType>
class NameTable {
 public:
  NameTable() : starts_(1, 0) {}

  void push_back(std::string_view name) {
    text_.append(name);
    starts_.push_back(static_cast<std::uint32_t>(text_.size()));
  }
  std::string_view operator[](IdType id) const {
    assert(id.index() + 1 < starts_.size());
    const auto first = starts_[id.index()];
    return std::string_view{text_}.substr(first, starts_[id.index() + 1] - first);
  }
  std::size_t size() const { return starts_.size() - 1; }
  std::size_t text_bytes() const { return text_.size(); }
  std::size_t memory_bytes() const { return text_.capacity() + starts_.capacity() * sizeof(std::uint32_t); }
  void shrink_to_fit() {
    text_.shrink_to_fit();
    starts_.shrink_to_fit();
  }

  friend bool operator==(const NameTable&, const NameTable&) = default;

 private:
  std::string text_;
  std::vector<std::uint32_t> starts_;
};

/// Numbers the distinct strings among many uses, so that each use is a small number. Number 0 is the empty string.
class Vocabulary {
 public:
  Vocabulary() { number(""); }

  std::uint32_t number(std::string_view word) {
    const auto known = numbers_.find(word);
    if (known != numbers_.end()) return known->second;
    const auto number = static_cast<std::uint32_t>(words_.size());
    words_.emplace_back(word);
    numbers_.emplace(words_.back(), number);
    return number;
  }
  const std::string& word(std::uint32_t number) const { return words_[number]; }
  std::size_t size() const { return words_.size(); }
  const std::vector<std::string>& words() const { return words_; }

  friend bool operator==(const Vocabulary& a, const Vocabulary& b) { return a.words_ == b.words_; }

 private:
  struct Hash {
    using is_transparent = void;  // lookup without constructing a string
    std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
  };

  std::vector<std::string> words_;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace trainyard
