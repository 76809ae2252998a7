#include "trainyard/core/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/nearest_name.hpp"

namespace trainyard {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::int64_t kLargest = std::int64_t{1} << 62;

/// One of this unit is multiplier x 10^exponent base units (byte, nanosecond, byte per second, FLOP per second).
struct Unit {
  const char* name;
  std::uint64_t multiplier;
  int exponent;
};

struct Dimension {
  const char* example;
  std::span<const Unit> units;
  std::span<const std::array<const char*, 2>> slips;  // common misspellings, each with the unit's name
};

constexpr std::uint64_t kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

constexpr Unit kSizes[] = {{"B", 1, 0},   {"kB", 1, 3},    {"KB", 1, 3},    {"MB", 1, 6},    {"GB", 1, 9},
                           {"TB", 1, 12}, {"KiB", kKi, 0}, {"MiB", kMi, 0}, {"GiB", kGi, 0}, {"TiB", kTi, 0}};
constexpr std::array<const char*, 2> kSizeSlips[] = {{"k", "kB"},    {"K", "kB"},   {"M", "MB"},    {"G", "GB"},
                                                     {"T", "TB"},    {"b", "B"},    {"bytes", "B"}, {"byte", "B"},
                                                     {"Bytes", "B"}, {"kb", "kB"},  {"mb", "MB"},   {"gb", "GB"},
                                                     {"tb", "TB"},   {"Gi", "GiB"}, {"Mi", "MiB"},  {"Ki", "KiB"}};
constexpr Unit kTimes[] = {{"ns", 1, 0}, {"us", 1, 3}, {"\u00b5s", 1, 3}, {"\u03bcs", 1, 3},
                           {"ms", 1, 6}, {"s", 1, 9},  {"min", 6, 10},    {"h", 36, 11}};
constexpr std::array<const char*, 2> kTimeSlips[] = {{"nsec", "ns"}, {"usec", "us"},  {"msec", "ms"},   {"sec", "s"},
                                                     {"secs", "s"},  {"second", "s"}, {"seconds", "s"}, {"S", "s"},
                                                     {"m", "ms"},    {"u", "us"},     {"n", "ns"}};
constexpr Unit kBandwidths[] = {{"B/s", 1, 0},      {"kB/s", 1, 3},     {"KB/s", 1, 3},     {"MB/s", 1, 6},
                                {"GB/s", 1, 9},     {"TB/s", 1, 12},    {"KiB/s", kKi, 0},  {"MiB/s", kMi, 0},
                                {"GiB/s", kGi, 0},  {"TiB/s", kTi, 0},  {"bit/s", 125, -3}, {"kbit/s", 125, 0},
                                {"Mbit/s", 125, 3}, {"Gbit/s", 125, 6}, {"Tbit/s", 125, 9}};
constexpr std::array<const char*, 2> kBandwidthSlips[] = {
    {"GBps", "GB/s"},   {"MBps", "MB/s"},   {"GB", "GB/s"},     {"MB", "MB/s"},     {"GiB", "GiB/s"},
    {"Gbps", "Gbit/s"}, {"Gb/s", "Gbit/s"}, {"Mbps", "Mbit/s"}, {"Mb/s", "Mbit/s"}, {"Tbps", "Tbit/s"},
    {"Tb/s", "Tbit/s"}, {"Gbit", "Gbit/s"}, {"G", "GB/s"},      {"Gb", "Gbit/s"}};
constexpr Unit kFlopRates[] = {{"FLOP/s", 1, 0},  {"kFLOP/s", 1, 3},  {"MFLOP/s", 1, 6},
                               {"GFLOP/s", 1, 9}, {"TFLOP/s", 1, 12}, {"PFLOP/s", 1, 15}};
constexpr std::array<const char*, 2> kFlopSlips[] = {
    {"FLOPS", "FLOP/s"},   {"FLOPs", "FLOP/s"},   {"GFLOPS", "GFLOP/s"}, {"GFLOPs", "GFLOP/s"}, {"TFLOPS", "TFLOP/s"},
    {"TFLOPs", "TFLOP/s"}, {"PFLOPS", "PFLOP/s"}, {"PFLOPs", "PFLOP/s"}, {"T", "TFLOP/s"},      {"G", "GFLOP/s"}};

constexpr Dimension kSize{"16 GiB", kSizes, kSizeSlips};
constexpr Dimension kTime{"5 us", kTimes, kTimeSlips};
constexpr Dimension kBandwidth{"450 GB/s", kBandwidths, kBandwidthSlips};
constexpr Dimension kFlopRate{"15.7 TFLOP/s", kFlopRates, kFlopSlips};

std::string names_of(const Dimension& dimension) {
  std::string all;
  for (const Unit& unit : dimension.units)
    if (static_cast<unsigned char>(unit.name[0]) < 0x80) all += (all.empty() ? "" : ", ") + std::string{unit.name};
  return all;
}

[[noreturn]] void fail(std::string message, std::string help) { refuse("unit", std::move(message), help); }

/// The value mantissa x 10^exponent in base units, exactly as written.
struct Decimal {
  Wide mantissa = 0;
  int exponent = 0;
};

bool digit(char c) { return c >= '0' && c <= '9'; }

/// Reads digits[.digits][e[+-]digits] from the front of `text` and removes it. False if the text has no such number.
/// Digits after the 22nd significant one are dropped: they are beyond a double's precision and beyond 2^62 units.
bool take_number(std::string_view& text, Decimal& number) {
  std::size_t at = 0;
  constexpr int kMostDigits = 22;
  int kept = 0;
  const auto take_digits = [&](bool fraction) {
    const std::size_t first = at;
    for (; at < text.size() && digit(text[at]); ++at) {
      if (kept < kMostDigits) {
        number.mantissa = number.mantissa * 10 + static_cast<unsigned>(text[at] - '0');
        if (number.mantissa != 0) ++kept;
        if (fraction) --number.exponent;
      } else if (!fraction) {
        ++number.exponent;
      }
    }
    return at > first;
  };
  if (!take_digits(false)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!take_digits(true)) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t exponent_at = at + 1;
    if (const auto sign = text.substr(exponent_at, 2); sign.starts_with('+') && sign != "+-") ++exponent_at;
    int exponent = 0;
    const auto [end, error] = std::from_chars(text.data() + exponent_at, text.data() + text.size(), exponent);
    if (error == std::errc{}) {
      number.exponent += std::clamp(exponent, -100'000, 100'000);
      at = static_cast<std::size_t>(end - text.data());
    } else if (error == std::errc::result_out_of_range) {
      return false;
    }
  }
  text.remove_prefix(at);
  return true;
}

Decimal parse(std::string_view text, std::string_view what, const Dimension& dimension) {
  const std::string expected = fmt::format("expected a number and a unit, as in '{}'", dimension.example);
  const std::string units = "units: " + names_of(dimension);
  if (text.empty()) fail(fmt::format("{} is empty; {}", what, expected), units);
  std::string_view rest = text;
  if (rest.front() == '-') fail(fmt::format("{} '{}' is negative; {}", what, text, expected), units);
  Decimal number;
  if (!take_number(rest, number)) fail(fmt::format("{} '{}' is not a quantity; {}", what, text, expected), units);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  if (rest.empty()) fail(fmt::format("{} '{}' has no unit; {}", what, text, expected), units);
  for (const Unit& unit : dimension.units) {
    if (rest != unit.name) continue;
    number.mantissa *= unit.multiplier;  // below 10^22 x 2^40 < 2^114
    number.exponent += unit.exponent;
    return number;
  }
  std::vector<std::string> names;
  std::string meant;
  for (const Unit& unit : dimension.units) names.emplace_back(unit.name);
  for (const auto& [slip, name] : dimension.slips)
    if (rest == slip) meant = fmt::format("did you mean '{}'? ", name);
  if (meant.empty()) {
    meant = did_you_mean(rest, names);
    if (!meant.empty()) meant += ' ';
  }
  const bool comma = rest.front() == ',';
  if (comma) meant = "write decimals with a point, as in '2.5'; ";
  fail(fmt::format("{} '{}' has the unknown unit '{}'; {}", what, text, rest, expected), meant + units);
}

[[noreturn]] void fail_too_large(std::string_view text, std::string_view what) {
  fail(fmt::format("{} '{}' is too large", what, text), "the largest is 2^62 base units (4.6e18)");
}

/// Rounds to the nearest integer, halves up.
std::int64_t whole(Decimal number, std::string_view text, std::string_view what) {
  Wide value = number.mantissa;
  for (; number.exponent > 0 && value != 0; --number.exponent) {
    if (value > static_cast<Wide>(kLargest)) fail_too_large(text, what);
    value *= 10;
  }
  if (number.exponent < 0) {
    Wide divisor = 1;
    for (; number.exponent < 0 && divisor <= value * 2; ++number.exponent) divisor *= 10;
    value = divisor > value * 2 ? 0 : (value + divisor / 2) / divisor;
  }
  if (value > static_cast<Wide>(kLargest)) fail_too_large(text, what);
  return static_cast<std::int64_t>(value);
}

/// The nearest double: from_chars reads the scaled digits, so the value is rounded once.
double real(const Decimal& number, std::string_view text, std::string_view what) {
  std::string digits;
  for (Wide rest = number.mantissa; rest != 0; rest /= 10)
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
  std::reverse(digits.begin(), digits.end());
  if (digits.empty()) return 0;
  digits += fmt::format("e{}", number.exponent);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) {
    if (number.exponent < 0) return 0;
    fail_too_large(text, what);
  }
  if (value > 0x1p62) fail_too_large(text, what);
  return value;
}

/// Whether the parsers of rates read the value.
bool readable(double value) { return !std::signbit(value) && value <= 0x1p62; }

/// `value` in the largest unit in which its magnitude is 1 or more. The units ascend, each 1000 times the one before.
std::string format_scaled(double value, std::span<const char* const> units, bool whole_base) {
  const char* sign = value < 0 ? "-" : "";
  value = std::abs(value);
  std::size_t unit = 0;
  // 999.95 would print as 1000.0, so it is shown in the next unit.
  while (unit + 1 < units.size() && value >= (unit == 0 && whole_base ? 1000.0 : 999.95)) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0 && whole_base) return fmt::format("{}{:.0f} {}", sign, value, units[0]);
  return fmt::format("{}{:.{}f} {}", sign, value, value < 9.995 ? 2 : 1, units[unit]);
}

/// The shortest text that parses back to the value; ties go to the earlier unit. The last unit always parses back.
template <class Parse>
std::string exact_real(double value, std::span<const Unit> units, Parse parse_back) {
  std::string best;
  for (const Unit& unit : units) {
    double scale = 1;
    for (int i = 0; i < unit.exponent; ++i) scale *= 10;
    std::array<char, 400> digits;
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), value / scale, std::chars_format::fixed);
    std::string text = fmt::format(
        "{} {}", std::string_view{digits.data(), static_cast<std::size_t>(end.ptr - digits.data())}, unit.name);
    if (parse_back(text) == value && (best.empty() || text.size() < best.size())) best = std::move(text);
  }
  return best;
}

constexpr const char* kTimeNames[] = {"ns", "us", "ms", "s"};
constexpr const char* kSizeNames[] = {"B", "kB", "MB", "GB", "TB", "PB"};
constexpr const char* kBandwidthNames[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
constexpr const char* kFlopRateNames[] = {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};

}  // namespace

Bytes parse_bytes(std::string_view text, std::string_view what) {
  return Bytes{whole(parse(text, what, kSize), text, what)};
}
Nanoseconds parse_time(std::string_view text, std::string_view what) {
  return Nanoseconds{whole(parse(text, what, kTime), text, what)};
}
BytesPerSecond parse_bandwidth(std::string_view text, std::string_view what) {
  return BytesPerSecond{real(parse(text, what, kBandwidth), text, what)};
}
FlopsPerSecond parse_flops_rate(std::string_view text, std::string_view what) {
  return FlopsPerSecond{real(parse(text, what, kFlopRate), text, what)};
}

std::string format_time(Nanoseconds time) { return format_scaled(static_cast<double>(time.count), kTimeNames, true); }
std::string format_bytes(Bytes size) { return format_scaled(static_cast<double>(size.count), kSizeNames, true); }
std::string format_rate(BytesPerSecond rate) { return format_scaled(rate.value, kBandwidthNames, false); }
std::string format_rate(FlopsPerSecond rate) { return format_scaled(rate.value, kFlopRateNames, false); }

std::string exact_time(Nanoseconds time) {
  const std::int64_t ns = time.count;
  if (ns == 0) return "0 ns";
  if (ns % 1'000'000'000 == 0) return fmt::format("{} s", ns / 1'000'000'000);
  if (ns % 1'000'000 == 0) return fmt::format("{} ms", ns / 1'000'000);
  if (ns % 1'000 == 0) return fmt::format("{} us", ns / 1'000);
  return fmt::format("{} ns", ns);
}

std::string exact_bytes(Bytes size) {
  constexpr Unit kPreferred[] = {
      {"TiB", kTi, 0}, {"TB", 1'000'000'000'000, 0}, {"GiB", kGi, 0}, {"GB", 1'000'000'000, 0},
      {"MiB", kMi, 0}, {"MB", 1'000'000, 0},         {"KiB", kKi, 0}, {"kB", 1'000, 0}};
  for (const Unit& unit : kPreferred) {
    const auto bytes_per_unit = static_cast<std::int64_t>(unit.multiplier);
    if (size.count != 0 && size.count % bytes_per_unit == 0)
      return fmt::format("{} {}", size.count / bytes_per_unit, unit.name);
  }
  return fmt::format("{} B", size.count);
}

std::string exact_rate(BytesPerSecond rate) {
  constexpr Unit kPreferred[] = {{"GB/s", 1, 9}, {"MB/s", 1, 6}, {"B/s", 1, 0}};
  return exact_real(rate.value, kPreferred, [](std::string_view text) { return parse_bandwidth(text).value; });
}

std::string exact_rate(FlopsPerSecond rate) {
  constexpr Unit kPreferred[] = {{"TFLOP/s", 1, 12}, {"GFLOP/s", 1, 9}, {"FLOP/s", 1, 0}};
  return exact_real(rate.value, kPreferred, [](std::string_view text) { return parse_flops_rate(text).value; });
}

std::string exact_text(BytesPerSecond rate) {
  return readable(rate.value) ? exact_rate(rate) : fmt::format("{} B/s", rate.value);
}

std::string exact_text(FlopsPerSecond rate) {
  return readable(rate.value) ? exact_rate(rate) : fmt::format("{} FLOP/s", rate.value);
}

std::ostream& operator<<(std::ostream& out, Nanoseconds time) { return out << exact_text(time); }
std::ostream& operator<<(std::ostream& out, Bytes size) { return out << exact_text(size); }
std::ostream& operator<<(std::ostream& out, Flops amount) { return out << exact_text(amount); }
std::ostream& operator<<(std::ostream& out, FlopsPerSecond rate) { return out << exact_text(rate); }
std::ostream& operator<<(std::ostream& out, BytesPerSecond rate) { return out << exact_text(rate); }

}  // namespace trainyard
