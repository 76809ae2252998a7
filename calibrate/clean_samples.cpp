#include "calibrate/clean_samples.hpp"

#include <algorithm>
#include <cmath>

#include "trainyard/core/statistics.hpp"

namespace trainyard::calibrate {

CleanSamples clean(const Samples& samples) {
  constexpr std::size_t kLeast = 4;
  constexpr double kDeviations = 8, kShare = 0.1;
  constexpr double kNormal = 1.4826;  // standard deviation / median absolute deviation of a normal distribution
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

}  // namespace trainyard::calibrate
