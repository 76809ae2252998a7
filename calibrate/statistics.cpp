#include "calibrate/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace trainyard::detail {

double mean_of(std::span<const double> values) {
  assert(!values.empty());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_error(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares / (n - 1) / n);
}

double median_of(std::vector<double> values) {
  assert(!values.empty());
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double quantile_of(std::vector<double> values, double share) {
  assert(!values.empty());
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

CleanSamples clean(const Samples& samples) {
  constexpr std::size_t kLeast = 4;
  constexpr double kDeviations = 8, kShare = 0.1;
  constexpr double kNormal = 1.4826;  // standard deviation / median deviation of a normal distribution
  CleanSamples result;
  for (const DroppedSample& sample : samples.dropped) ++result.drop_reasons[sample.reason];
  for (const Nanoseconds time : samples.kept) result.kept_ns.push_back(static_cast<double>(time.count));
  if (result.kept_ns.size() >= kLeast) {
    const double median = median_of(result.kept_ns);
    std::vector<double> deviations;
    for (const double time : result.kept_ns) deviations.push_back(std::abs(time - median));
    const double limit = std::max(kDeviations * kNormal * median_of(deviations), kShare * median);
    const auto outliers = std::erase_if(result.kept_ns, [&](double time) { return std::abs(time - median) > limit; });
    if (outliers > 0) result.drop_reasons["outlier"] += static_cast<std::int64_t>(outliers);
  }
  for (const auto& [reason, count] : result.drop_reasons) result.dropped += count;
  return result;
}

void join(Samples& samples, const Samples& more) {
  samples.kept.insert(samples.kept.end(), more.kept.begin(), more.kept.end());
  samples.dropped.insert(samples.dropped.end(), more.dropped.begin(), more.dropped.end());
}

}  // namespace trainyard::detail
