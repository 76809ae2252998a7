#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "trainyard/core/quantity.hpp"

namespace trainyard::detail {

/// Appends the text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
void append_json(std::string& out, std::string_view text);
/// Appends the shortest decimal that reads back as the same double. Throws InputError ("range") if the number is not
/// finite.
void append_json(std::string& out, double number);
void append_json(std::string& out, std::int64_t number);
void append_json(std::string& out, std::uint64_t number);

inline std::string json_string(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

/// A time of 0 or more in microseconds with three decimals, which represent every nanosecond exactly.
std::string microseconds(Nanoseconds time);

/// Writes `text` to `out` once it has grown to a block (64 KiB), so that a file is never held in memory as a whole. The
/// last character is kept, because writers test it to see whether a list has just begun.
void pass_on(std::string& text, std::ostream& out);

}  // namespace trainyard::detail
