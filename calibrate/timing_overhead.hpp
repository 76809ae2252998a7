#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainyard/cost/profile.hpp"

namespace trainyard::calibrate {

/// The profiles without what events before and after ops added to the times of these: where the mean times of all ops
/// of a step sum to more than the whole step took while none was timed (`steps`), the excess is taken from them evenly,
/// down to 0, and gaps, which were between events, are left out; also from ops of that device kind that ran beside
/// other devices. Steps beside copies correct ops beside copies. Between events in a stream, kernels of PyTorch take 2
/// to 3 us more on an H100, within a CUDA graph less.
std::vector<Profile> without_timing_overhead(std::span<const Profile> profiles, std::vector<std::string>& notes);

/// What, taken from each of the times but none below 0, leaves `sum` of them; 0 where they sum to no more.
double even_excess(std::vector<double> times, double sum);

}  // namespace trainyard::calibrate
