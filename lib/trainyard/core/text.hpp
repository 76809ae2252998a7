#pragma once

#include <string>
#include <string_view>

namespace trainyard::detail {

/// Lowercases ASCII letters only, independent of the locale.
constexpr char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lower_case(std::string_view text) {
  std::string result{text};
  for (char& c : result) c = lower_case(c);
  return result;
}

/// Escapes &, <, >, " and ' as character references: safe between tags and in quoted attributes.
inline std::string html_text(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

/// Whether the byte is a continuation byte of a UTF-8 character.
constexpr bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace trainyard::detail
