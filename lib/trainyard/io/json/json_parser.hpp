#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::detail {

/// Values that nest deeper are refused.
inline constexpr std::size_t kDeepestJson = 100;

enum class JsonKind : std::uint8_t { null, boolean, number, string, array, object };

inline bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Message of the library's parser for a text that is not JSON.
struct JsonFault {
  std::size_t position = 0;  // how many bytes it had read
  std::string last_token, message;
  int id = 0;
};
/// None where the text is JSON.
std::optional<JsonFault> explain_json(std::string_view text);
/// Resolves the escapes of a string, given with its quotes; false where it is no JSON string.
bool unescape_json(std::string_view token, std::string& text);
/// Whether the text of a number or a string with its quotes is one that JSON allows: not beyond the largest double, and
/// UTF-8.
bool accepts_json(std::string_view token);

/// Walks a JSON text of any size and tells the handler each token and where it stands. It knows only right texts: where
/// one is wrong, it stops, and nlohmann's parser says why (explain_json); that one also decides on what is rare:
/// escapes, characters beyond ASCII, numbers at the edge of a double. nlohmann's own walk costs 5 times as much
/// (bench: 9 ns a byte), and gives no positions.
///
/// The handler has `value(kind, begin, text)` for leaves, `key(begin, text)`, `open(kind, begin)`, `close()`: each
/// returns false to stop. `begin` is an offset; the text of a key or a string is a view of the input, or of a buffer
/// where it has escapes.
template <class Handler>
class JsonParser {
 public:
  enum class Outcome { done, stopped, wrong };

  JsonParser(std::string_view text, Handler& handler)
      : text_(text),
        handler_(handler),
        begin_(text.data()),
        end_(text.data() + text.size()),
        at_(begin_ + (text.starts_with("\xEF\xBB\xBF") ? 3 : 0)),
        token_end_(at_) {}

  Outcome parse() {
    const bool whole = walk();
    return whole ? Outcome::done : stopped_ ? Outcome::stopped : Outcome::wrong;
  }

  /// Offset of the token after the last one.
  std::size_t begin_of_next() const {
    const char* at = token_end_;
    // Digits that cannot belong to the number before them are counted to it.
    if (number_)
      while (at < end_ && std::string_view{"+-.0123456789eE"}.find(*at) != std::string_view::npos) ++at;
    while (at < end_ && (blank(*at) || *at == ',' || *at == ':')) ++at;
    return offset(at);
  }
  /// The text of this key or string is in a buffer, until the next token.
  bool copied() const { return copied_; }

 private:
  std::size_t offset(const char* at) const { return static_cast<std::size_t>(at - begin_); }
  bool go_on(bool handled) {
    stopped_ = !handled;
    return handled;
  }

  bool walk() {
    for (;;) {
      if (!take_value()) return false;
      // After a value: close what ends here, until a comma asks for the next value.
      for (;;) {
        skip_blanks();
        if (open_.empty()) return at_ == end_;
        if (at_ == end_) return false;
        const bool object = open_.back() == JsonKind::object;
        if (*at_ == ',') {
          ++at_;
          if (object && !take_key()) return false;
          break;
        }
        if (*at_ != (object ? '}' : ']') || !close()) return false;
      }
    }
  }

  /// A leaf, an empty array or object, or the opening of one up to its first leaf.
  bool take_value() {
    for (;;) {
      skip_blanks();
      if (at_ == end_) return false;
      switch (*at_) {
        case '{':
          if (!open(JsonKind::object)) return false;
          if (at_ < end_ && *at_ == '}') return close();
          if (!take_key()) return false;
          continue;
        case '[':
          if (!open(JsonKind::array)) return false;
          if (at_ < end_ && *at_ == ']') return close();
          continue;
        case '"': {
          const std::size_t begin = offset(at_);
          return take_string() && go_on(handler_.value(JsonKind::string, begin, string_));
        }
        case 't':
          return take_word("true", JsonKind::boolean);
        case 'f':
          return take_word("false", JsonKind::boolean);
        case 'n':
          return take_word("null", JsonKind::null);
        default:
          return take_number();
      }
    }
  }

  bool open(JsonKind kind) {
    const std::size_t begin = offset(at_);
    token_end_ = ++at_;
    number_ = false;
    open_.push_back(kind);
    if (!go_on(handler_.open(kind, begin))) return false;
    skip_blanks();
    return true;
  }
  bool close() {
    token_end_ = ++at_;
    number_ = false;
    open_.pop_back();
    return go_on(handler_.close());
  }

  bool take_key() {
    skip_blanks();
    const std::size_t begin = offset(at_);
    if (at_ == end_ || *at_ != '"' || !take_string() || !go_on(handler_.key(begin, string_))) return false;
    skip_blanks();
    if (at_ == end_ || *at_ != ':') return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word, JsonKind kind) {
    if (!std::string_view{at_, end_}.starts_with(word)) return false;
    const std::size_t begin = offset(at_);
    token_end_ = at_ += word.size();
    number_ = false;
    return go_on(handler_.value(kind, begin, text_.substr(begin, word.size())));
  }

  static bool digit(char c) { return c >= '0' && c <= '9'; }
  static const char* after_digits(const char* at, const char* end) {
    while (at < end && digit(*at)) ++at;
    return at;
  }

  bool take_number() {
    const char* at = at_ + (*at_ == '-' ? 1 : 0);
    if (at == end_ || !digit(*at)) return false;
    at = *at == '0' ? at + 1 : after_digits(at, end_);
    if (at < end_ && *at == '.') {
      const char* const fraction = at + 1;
      at = after_digits(fraction, end_);
      if (at == fraction) return false;
    }
    bool exponent = false;
    if (at < end_ && (*at == 'e' || *at == 'E')) {
      exponent = true;
      ++at;
      if (at < end_ && (*at == '+' || *at == '-')) ++at;
      const char* const digits = at;
      at = after_digits(digits, end_);
      if (at == digits) return false;
    }
    const std::string_view number{at_, at};
    constexpr std::size_t kFewDigits = 300;  // fewer are less than the largest double
    if ((exponent || number.size() > kFewDigits) && !accepts_json(number)) return false;
    const std::size_t begin = offset(at_);
    token_end_ = at_ = at;
    number_ = true;
    return go_on(handler_.value(JsonKind::number, begin, number));
  }

  /// Leaves its characters in string_.
  bool take_string() {
    const char* const first = at_ + 1;
    const char* at = after_plain(first);
    if (at == end_) return false;
    copied_ = false;
    if (*at == '"') {
      string_ = {first, at};
    } else {
      bool escaped = false;
      for (; at < end_ && *at != '"'; ++at)
        if (*at == '\\') {
          escaped = true;
          if (++at == end_) return false;
        }
      if (at >= end_) return false;
      const std::string_view token{at_, at + 1};
      copied_ = escaped;
      string_ = {first, at};
      if (escaped ? !unescape_json(token, buffer_) : !accepts_json(token)) return false;
      if (escaped) string_ = buffer_;
    }
    token_end_ = at_ = at + 1;
    number_ = false;
    return true;
  }

  /// The first character of a string that is a quote, a backslash, a control character, or beyond ASCII; eight at a
  /// time.
  const char* after_plain(const char* at) const {
    constexpr std::uint64_t kOnes = 0x0101010101010101, kTops = 0x8080808080808080;
    if constexpr (std::endian::native == std::endian::little)
      for (; end_ - at >= 8; at += 8) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, at, sizeof eight);
        const std::uint64_t quote = eight ^ (kOnes * '"'), backslash = eight ^ (kOnes * '\\');
        // Each term has the top bit of a byte that it looks for; bytes above the first such may be marked too.
        const std::uint64_t found = ((eight - kOnes * ' ') | (quote - kOnes) | (backslash - kOnes) | eight) & kTops;
        if (found) break;
      }
    const auto plain = [](char c) { return static_cast<unsigned char>(c - ' ') < 0x60 && c != '"' && c != '\\'; };
    while (at < end_ && plain(*at)) ++at;
    return at;
  }

  void skip_blanks() {
    while (at_ < end_ && blank(*at_)) ++at_;
  }

  std::string_view text_;
  Handler& handler_;
  const char *begin_, *end_, *at_, *token_end_;
  std::vector<JsonKind> open_;
  std::string_view string_;
  std::string buffer_;
  bool copied_ = false, number_ = false, stopped_ = false;
};

}  // namespace trainyard::detail
