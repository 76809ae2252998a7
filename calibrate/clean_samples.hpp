#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

/// Times of one thing without outliers, and why others were dropped: those that the profiler dropped with its
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

}  // namespace trainyard::calibrate
