#include "trainyard/io/json/json_write.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "trainyard/core/error.hpp"

namespace trainyard::detail {
namespace {

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> text;
  const auto result = std::to_chars(text.data(), text.data() + text.size(), number);
  out.append(text.data(), result.ptr);
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

void append_json(std::string& out, double number) {
  if (!std::isfinite(number))
    refuse("range", "a number to be written is not finite, which JSON cannot express", "give a finite number");
  constexpr double kExact = 0x1p53;  // whole numbers below it are written without a point
  if (number == std::floor(number) && std::abs(number) < kExact && !(number == 0 && std::signbit(number)))
    append_number(out, static_cast<std::int64_t>(number));
  else
    append_number(out, number);
}

void append_json(std::string& out, std::int64_t number) { append_number(out, number); }
void append_json(std::string& out, std::uint64_t number) { append_number(out, number); }

std::string microseconds(Nanoseconds time) { return fmt::format("{}.{:03}", time.count / 1000, time.count % 1000); }

void pass_on(std::string& text, std::ostream& out) {
  constexpr std::size_t kBlock = std::size_t{1} << 16;
  if (text.size() < kBlock) return;
  out.write(text.data(), static_cast<std::streamsize>(text.size() - 1));
  text.erase(0, text.size() - 1);
}

}  // namespace trainyard::detail
