#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace trainyard::detail {

/// Appends the text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
void append_json(std::string& out, std::string_view text);
/// Appends the shortest decimal that reads back as the same double. Throws InputError ("range") where it is not finite.
void append_json(std::string& out, double number);
void append_json(std::string& out, std::int64_t number);
void append_json(std::string& out, std::uint64_t number);

inline std::string json_string(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

/// Writes a text that has grown to a block, so that no file is held as a whole; its last character stays, by which
/// writers see whether a list begins.
void pass_on(std::string& text, std::ostream& out);

}  // namespace trainyard::detail
