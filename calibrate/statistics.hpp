#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trainyard/cost/profile.hpp"

namespace trainyard::detail {

/// Of values that need not be sorted; not empty.
double mean_of(std::span<const double> values);
/// Of the mean; 0 for one value.
double standard_error(std::span<const double> values);
double median_of(std::vector<double> values);
/// The smallest value that at least `share` of the values do not exceed (nearest rank).
double quantile_of(std::vector<double> values, double share);

/// What is left of the times of one thing, and why others were dropped: those that the profiler dropped with its
/// reasons, and "outlier" for a time that is further from the median than 8 standard deviations (estimated by the
/// median deviation, which outliers do not move) and than a tenth of the median. Of fewer than 4 times none is an
/// outlier.
struct CleanSamples {
  std::vector<double> kept_ns;
  std::map<std::string, std::int64_t, std::less<>> drop_reasons;
  std::int64_t dropped = 0;
};
CleanSamples clean(const Samples& samples);
/// Adds the second's samples to the first's.
void join(Samples& samples, const Samples& more);

}  // namespace trainyard::detail
