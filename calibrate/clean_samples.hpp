#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

/// Samples of one op, transfer size or overhead without outliers, and the reasons of the dropped ones. Samples that the
/// profiler dropped keep its reasons. A sample is dropped as "outlier" if it is farther from the median than both 8
/// standard deviations and a tenth of the median. The standard deviation is estimated from the median absolute
/// deviation, which is robust to outliers. With fewer than 4 samples none is an outlier.
struct CleanSamples {
  std::vector<double> kept_ns;
  std::map<std::string, std::int64_t, std::less<>> drop_reasons;
  std::int64_t dropped = 0;
};
CleanSamples clean(const Samples& samples);
/// Appends the second's samples to the first's.
void join(Samples& samples, const Samples& more);

}  // namespace trainyard::calibrate
