#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

// Quantities as people write them: a decimal number, an optional space, a unit. GB is 10^9, GiB is 2^30; "GB/s" is 10^9
// bytes per second and "Gbit/s" 10^9 bits per second. The decimal text is scaled exactly and rounded once: "12.5 GB/s"
// is 12,500,000,000 bytes per second; sizes and times are rounded to the nearest whole byte or nanosecond, halves up.
// The locale plays no part.
//
// All parsers throw InputError, code "unit": for a number without a unit, an unknown unit (with the nearest one), no
// number, a sign, NaN, infinity, text after the unit, or a value beyond 2^62.

/// "16 GiB", "25.6MB": B; kB (or KB), MB, GB, TB; KiB, MiB, GiB, TiB. Messages name the quantity by `what`.
Bytes parse_bytes(std::string_view text, std::string_view what = "size");

/// "5 us", "2.5ms": ns, us (or µs), ms, s, min, h.
Nanoseconds parse_time(std::string_view text, std::string_view what = "time");

/// "50 GB/s", "100 Gbit/s": every unit of size per second; bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s.
BytesPerSecond parse_bandwidth(std::string_view text, std::string_view what = "bandwidth");

/// "15.7 TFLOP/s": FLOP/s with k, M, G, T or P.
FlopsPerSecond parse_flops_rate(std::string_view text, std::string_view what = "rate");

// For people, rounded: two decimals below 10, one above ("1.93 ms", "41.8 ms", "128.3 ms").
std::string format_time(Nanoseconds time);     // ns, us, ms, s
std::string format_bytes(Bytes size);          // B, kB, MB, GB, TB, PB
std::string format_rate(BytesPerSecond rate);  // "50.0 GB/s"
std::string format_rate(FlopsPerSecond rate);  // "15.7 TFLOP/s"

// For files: parsing the text gives the same value back. The unit is the one that gives a short number. A rate that no
// parser reads (negative, NaN, beyond 2^62) throws InputError, code "unit".
std::string exact_time(Nanoseconds time);     // "5 us", "1234567 ns"
std::string exact_bytes(Bytes size);          // "16 GiB", "25 MB", "12345 B"
std::string exact_rate(BytesPerSecond rate);  // "12.5 GB/s"
std::string exact_rate(FlopsPerSecond rate);  // "15.7 TFLOP/s"

// The exact text under one name for all types: what streams and fmt print. Rates that no parser reads are in B/s and
// FLOP/s.
inline std::string exact_text(Nanoseconds time) { return exact_time(time); }
inline std::string exact_text(Bytes size) { return exact_bytes(size); }
std::string exact_text(BytesPerSecond rate);
std::string exact_text(FlopsPerSecond rate);
inline std::string exact_text(Flops amount) { return fmt::format("{} FLOP", amount.value); }

}  // namespace trainyard

namespace fmt {

/// fmt::format("{:>10}", timeline.makespan); the format options are those of strings.
template <class Unit>
struct formatter<trainyard::Count<Unit>> : formatter<std::string_view> {
  template <class Context>
  auto format(trainyard::Count<Unit> count, Context& context) const {
    return formatter<std::string_view>::format(trainyard::exact_text(count), context);
  }
};
template <class Unit>
struct formatter<trainyard::Amount<Unit>> : formatter<std::string_view> {
  template <class Context>
  auto format(trainyard::Amount<Unit> amount, Context& context) const {
    return formatter<std::string_view>::format(trainyard::exact_text(amount), context);
  }
};

}  // namespace fmt
