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

/// Deepest nesting that readers accept.
inline constexpr std::size_t kDeepestJson = 100;

enum class JsonKind : std::uint8_t { null, boolean, number, string, array, object };

inline bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// Error report of nlohmann's parser for a text that is not JSON.
struct JsonFault {
  std::size_t position = 0;  // number of bytes read
  std::string last_token, message;
  int id = 0;
};
/// Why the text is not JSON; nothing if it is.
std::optional<JsonFault> explain_json(std::string_view text);
/// Resolves the escapes of a string, given with its quotes. Returns false if it is not a JSON string.
bool unescape_json(std::string_view token, std::string& text);
/// Whether JSON allows this token, a number or a string with its quotes: a number must not exceed the largest double, a
/// string must be UTF-8.
bool accepts_json(std::string_view token);

/// Walks a JSON text of any size and passes each token with its position to the handler. It only recognizes valid
/// texts. At an error it stops, and nlohmann's parser explains the error (explain_json). That parser also decides the
/// rare cases: escapes, characters beyond ASCII, numbers near the limit of a double. nlohmann's own walk takes 5 times
/// as long (bench: 9 ns per byte) and reports no positions.
///
/// The handler has `value(kind, begin, text)` for leaves, `key(begin, text)`, `open(kind, begin)` and `close()`. Each
/// returns false to stop the walk. `begin` is a byte offset. The text of a key or a string is a view of the input, or
/// of a buffer if it contains escapes.
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

  /// Offset of the token that follows the last one read.
  std::size_t begin_of_next() const {
    const char* at = token_end_;
    // Digits directly after a number that cannot belong to it are skipped with it.
    if (number_)
      while (at < end_ && std::string_view{"+-.0123456789eE"}.find(*at) != std::string_view::npos) ++at;
    while (at < end_ && (blank(*at) || *at == ',' || *at == ':')) ++at;
    return offset(at);
  }
  /// Whether the text of the current key or string is in a buffer that the next token overwrites.
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
      // After a value: close the containers that end here, until a comma announces the next value.
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

  /// Takes a leaf or an empty container. Containers that are not empty are opened down to their first leaf.
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
    constexpr std::size_t kFewDigits = 300;  // a number with fewer digits is below the largest double
    if ((exponent || number.size() > kFewDigits) && !accepts_json(number)) return false;
    const std::size_t begin = offset(at_);
    token_end_ = at_ = at;
    number_ = true;
    return go_on(handler_.value(JsonKind::number, begin, number));
  }

  /// Reads a string and leaves its characters in string_.
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

  /// The first character that is a quote, a backslash, a control character or beyond ASCII. Tests eight bytes at a
  /// time.
  const char* after_plain(const char* at) const {
    constexpr std::uint64_t kOnes = 0x0101010101010101, kTops = 0x8080808080808080;
    if constexpr (std::endian::native == std::endian::little)
      for (; end_ - at >= 8; at += 8) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, at, sizeof eight);
        const std::uint64_t quote = eight ^ (kOnes * '"'), backslash = eight ^ (kOnes * '\\');
        // Each term sets the top bit of the bytes it looks for. Bytes above the first match may be marked in error.
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
