#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "trainyard/core/text.hpp"

namespace trainyard {
namespace detail {

/// The UTF-8 character at the beginning of a text; `size` is 0 if the bytes are not valid UTF-8.
struct Character {
  std::uint32_t code = 0;
  std::size_t size = 0;
};

inline Character first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return {first, 1};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return {};
  std::uint32_t code = first & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues_character(text[i])) return {};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return code < kLeast[size] || code > 0x10FFFF || surrogate ? Character{} : Character{code, size};
}

/// False for control characters (C0 except the tab, DEL, C1), line separators and marks that change the writing
/// direction.
constexpr bool is_shown(std::uint32_t code) {
  if (code < 0xA0) return code == '\t' || (code >= ' ' && code < 0x7F);
  const bool turns = code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069);
  return !turns && code != 0x2028 && code != 0x2029;
}

/// Length of an escape sequence at the beginning of the text that sets a colour, such as "\033[1m"; 0 if none.
inline std::size_t color_size(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

inline std::string printable(std::string_view text, bool lines, bool colors) {
  if (std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) return std::string{text};
  std::string out;
  while (!text.empty()) {
    const Character next = first_character(text);
    const std::size_t color = colors ? color_size(text) : 0;
    const std::size_t size = std::max({next.size, color, std::size_t{1}});
    const bool shown = color > 0 || (next.size > 0 && (is_shown(next.code) || (lines && next.code == '\n')));
    out += shown ? text.substr(0, size) : "?";
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace detail

/// The text on one line, safe to print to a terminal. '?' replaces each control character except the tab, each end of
/// line, each byte that is not UTF-8, and each mark that changes the writing direction (it could make one name look
/// like another).
inline std::string printable(std::string_view text) { return detail::printable(text, false, false); }

/// Like printable(), but keeps line ends; `colors` also keeps escape sequences that only set colours.
inline std::string printable_lines(std::string_view text, bool colors) { return detail::printable(text, true, colors); }

/// One CSV field (RFC 4180), quoted if necessary, and escaped so that no spreadsheet program takes it for a formula.
inline std::string csv_field(std::string_view text) {
  // The apostrophe tells spreadsheet programs that the field is text.
  const bool formula = text.size() > 1 && std::string_view{"=+-@\t\r"}.find(text.front()) != std::string_view::npos;
  const std::string start = formula ? "'" : "";
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return start + std::string{text};
  std::string quoted = "\"" + start;
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace trainyard
