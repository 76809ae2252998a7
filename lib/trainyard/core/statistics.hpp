#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace trainyard {

// Statistics of at least one value, in any order. A quantile is always one of the values, without interpolation; only
// median_of takes the mean of the two middle values.

inline double mean_of(std::span<const double> values) {
  assert(!values.empty());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Standard error of the mean; 0 for one value.
inline double standard_error(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / (n - 1) / n);
}

/// The value at `position`, from 0, in ascending order.
template <class T>
T ranked(std::vector<T> values, std::size_t position) {
  assert(position < values.size());
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Quantile by nearest rank: the smallest value such that at least `share` of all n values are at most as large;
/// position ceil(share n) - 1 in ascending order.
inline double quantile_of(std::vector<double> values, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const std::size_t position = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  return ranked(std::move(values), position);
}

/// Quantile at position floor(share n). By default the median; for an even count the upper one of the two middle
/// values.
template <class T>
T upper_quantile_of(std::vector<T> values, double share = 0.5) {
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(values.size()));
  const std::size_t position = std::min(values.size() - 1, rank);
  return ranked(std::move(values), position);
}

/// The middle value; for an even count the mean of the two middle values.
inline double median_of(std::vector<double> values) {
  assert(!values.empty());
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Kendall's tau-b of two rankings of the same things: (concordant - discordant pairs) / sqrt(pairs not tied in a x
/// pairs not tied in b), from -1 to 1. Nothing if all values of one ranking are tied, or for fewer than two things.
inline std::optional<double> kendall_tau(std::span<const double> a, std::span<const double> b) {
  assert(a.size() == b.size());
  double agreement = 0, apart_a = 0, apart_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const int x = (a[i] > a[j]) - (a[i] < a[j]), y = (b[i] > b[j]) - (b[i] < b[j]);
      agreement += x * y;
      apart_a += x != 0;
      apart_b += y != 0;
    }
  if (apart_a == 0 || apart_b == 0) return std::nullopt;
  return agreement / std::sqrt(apart_a * apart_b);
}

}  // namespace trainyard
