#pragma once

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// The parser's own header is large: only the two .cpp files that walk JSON texts include this one.

namespace trainyard::detail {

/// Values that nest deeper are refused.
inline constexpr std::size_t kDeepestJson = 100;

/// Walks the text for the parser and lets the handler see how far it has come: the parser itself keeps no positions.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;

  const char& operator*() const { return *at; }
  CountingIterator& operator++() { return ++at, *this; }
  CountingIterator operator++(int) { return {at++}; }
  friend bool operator==(CountingIterator a, CountingIterator b) { return a.at == b.at; }
};

inline bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// What both handlers below share: where each token begins. A token begins at the first character after the one before
/// it that is neither blank nor a comma or colon.
class TokenPlaces {
 public:
  explicit TokenPlaces(std::string_view text) : text_(text), end_(text.starts_with("\xEF\xBB\xBF") ? 3 : 0) {}

  std::size_t begin_of_next() const {
    std::size_t at = end_;
    while (at < text_.size() && (blank(text_[at]) || text_[at] == ',' || text_[at] == ':')) ++at;
    return at;
  }
  std::size_t take_symbol() { return take(begin_of_next(), 1); }
  std::size_t take_word(std::size_t size) { return take(begin_of_next(), size); }
  std::size_t take_number() {
    const std::size_t begin = begin_of_next();
    std::size_t end = begin;
    while (end < text_.size() && std::string_view{"+-.0123456789eE"}.find(text_[end]) != std::string_view::npos) ++end;
    return take(begin, end - begin);
  }
  /// `decoded` characters long, escapes resolved.
  std::size_t take_string(std::size_t decoded) {
    const std::size_t begin = begin_of_next();
    std::size_t end = begin + 1 + decoded;
    if (end < text_.size() && text_[end] == '"' &&
        text_.substr(begin + 1, decoded).find('\\') == std::string_view::npos)
      return take(begin, decoded + 2);
    for (end = begin + 1; end < text_.size() && text_[end] != '"'; ++end)
      if (text_[end] == '\\') ++end;
    return take(begin, end + 1 - begin);
  }
  std::size_t end() const { return end_; }

 private:
  std::size_t take(std::size_t begin, std::size_t size) { return end_ = begin + size, begin; }

  std::string_view text_;
  std::size_t end_;
};

/// Runs the parser over the text. The handler has the parser's events: null, boolean, ..., parse_error.
template <class Handler>
bool walk_json(std::string_view text, Handler& handler) {
  const CountingIterator begin{text.data()}, end{text.data() + text.size()};
  return nlohmann::json::sax_parse(begin, end, &handler);
}

}  // namespace trainyard::detail
