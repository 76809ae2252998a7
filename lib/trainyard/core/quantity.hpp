#pragma once

#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iosfwd>

namespace trainyard {

/// A count of one unit. Counts add, subtract, compare and scale by integers; counts of different units do not mix.
template <class Unit>
struct Count {
  std::int64_t count = 0;

  constexpr Count() = default;
  constexpr explicit Count(std::int64_t value) : count(value) {}

  constexpr Count& operator+=(Count other) { return count += other.count, *this; }
  constexpr Count& operator-=(Count other) { return count -= other.count, *this; }
  friend constexpr Count operator+(Count a, Count b) { return Count{a.count + b.count}; }
  friend constexpr Count operator-(Count a, Count b) { return Count{a.count - b.count}; }
  friend constexpr Count operator*(Count a, std::int64_t factor) { return Count{a.count * factor}; }
  friend constexpr Count operator*(std::int64_t factor, Count a) { return Count{a.count * factor}; }
  /// The ratio; b is not 0.
  friend constexpr double operator/(Count a, Count b) {
    return static_cast<double>(a.count) / static_cast<double>(b.count);
  }
  friend constexpr auto operator<=>(Count, Count) = default;
};

/// Time: whole nanoseconds, signed 64 bits (292 years).
using Nanoseconds = Count<struct NanosecondUnit>;
/// Sizes: whole bytes.
using Bytes = Count<struct ByteUnit>;

/// A rate, or an amount too large or too fractional to count exactly.
template <class Unit>
struct Amount {
  double value = 0;

  constexpr Amount() = default;
  constexpr explicit Amount(double v) : value(v) {}
  constexpr Amount& operator+=(Amount other) { return value += other.value, *this; }
  friend constexpr Amount operator+(Amount a, Amount b) { return Amount{a.value + b.value}; }
  friend constexpr Amount operator*(Amount a, double factor) { return Amount{a.value * factor}; }
  friend constexpr double operator/(Amount a, Amount b) { return a.value / b.value; }
  friend constexpr auto operator<=>(Amount, Amount) = default;
};

/// Floating-point operations; a multiply-add counts two.
using Flops = Amount<struct FlopUnit>;
using FlopsPerSecond = Amount<struct FlopRateUnit>;
using BytesPerSecond = Amount<struct ByteRateUnit>;

/// Print the exact value with its unit, as in files: "1234567 ns", "16 GiB", "12.5 GB/s" (core/units.hpp has the fmt
/// formatters, and rounded texts for people).
std::ostream& operator<<(std::ostream& out, Nanoseconds time);
std::ostream& operator<<(std::ostream& out, Bytes size);
std::ostream& operator<<(std::ostream& out, Flops amount);
std::ostream& operator<<(std::ostream& out, FlopsPerSecond rate);
std::ostream& operator<<(std::ostream& out, BytesPerSecond rate);

/// Upper limit on every time in a problem, so that sums of times never overflow: 2^62 ns, 146 years.
inline constexpr Nanoseconds kLongestTime{std::int64_t{1} << 62};

/// Rounds to the nearest nanosecond, halves up. Clamps to kLongestTime above and to -kLongestTime below; NaN also gives
/// -kLongestTime, which callers that read times refuse as negative.
inline Nanoseconds nanoseconds_from_seconds(double seconds) {
  const double ns = std::floor(seconds * 1e9 + 0.5);
  if (std::abs(ns) < static_cast<double>(kLongestTime.count)) return Nanoseconds{static_cast<std::int64_t>(ns)};
  return ns > 0 ? kLongestTime : -1 * kLongestTime;
}

/// amount / rate in nanoseconds, to the nearest, halves up. Exact (128-bit integers) if the rate is a whole number of
/// bytes per second, as every "50 GB/s" is.
inline Nanoseconds time_for(Bytes amount, BytesPerSecond rate) {
  if (amount.count == 0) return Nanoseconds{0};
  if (rate.value == std::floor(rate.value) && rate.value >= 1 && rate.value < 0x1p62) {
    __extension__ using Wide = __int128;
    const auto per_second = static_cast<Wide>(static_cast<std::int64_t>(rate.value));
    const Wide ns = (static_cast<Wide>(amount.count) * 2'000'000'000 + per_second) / (2 * per_second);
    return ns >= kLongestTime.count ? kLongestTime : Nanoseconds{static_cast<std::int64_t>(ns)};
  }
  return nanoseconds_from_seconds(static_cast<double>(amount.count) / rate.value);
}

inline Nanoseconds time_for(Flops amount, FlopsPerSecond rate) {
  return nanoseconds_from_seconds(amount.value / rate.value);
}

/// sum / count to the nearest nanosecond, halves up. The sum is 0 or more, the count more than 0.
inline Nanoseconds mean_of(Nanoseconds sum, std::size_t count) {
  const auto n = static_cast<std::int64_t>(count);
  return Nanoseconds{sum.count / n + (sum.count % n * 2 >= n ? 1 : 0)};
}

/// value / to; 1 if `to` is not above 0.
inline double relative_to(Nanoseconds value, Nanoseconds to) { return to.count > 0 ? value / to : 1; }

inline double seconds(Nanoseconds time) { return static_cast<double>(time.count) * 1e-9; }

}  // namespace trainyard
