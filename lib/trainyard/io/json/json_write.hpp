#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::detail {

/// Appends the text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
void append_json(std::string& out, std::string_view text);
/// Appends the shortest decimal that reads back as the same double; finite only.
void append_json(std::string& out, double number);
void append_json(std::string& out, std::int64_t number);
void append_json(std::string& out, std::uint64_t number);

inline std::string json_string(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

}  // namespace trainyard::detail
