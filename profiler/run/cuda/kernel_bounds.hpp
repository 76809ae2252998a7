#pragma once

#include <vector>

#include "profiler/backend.hpp"

namespace trainyard::cuda {

/// Time of an op alone, and the lower bound by its shape:
///
///     bound = max(bytes / bandwidth, FLOPs / peak) + launch
struct KernelBound {
  OpId op;
  Nanoseconds time, bound;
  bool ours = true;  // own kernel: no product, convolution, batch norm, softmax or average pool (cuBLAS, cuDNN)
  /// The time as a multiple of the bound.
  double ratio() const { return static_cast<double>(time.count) / static_cast<double>(bound.count); }
};
/// Multiple of its bound above which an own kernel counts as too slow.
inline constexpr double kMostOfBound = 3;

/// Bounds of each op of the workload except inputs, on the first device with warm caches, by the device's peak and
/// memory bandwidth; the time is the median of a few runs. `launch`: fixed time of an op of any shape. Throws as
/// Backend::time_alone.
std::vector<KernelBound> kernel_bounds(Backend& backend, const Problem& problem, const Workload& workload,
                                       Nanoseconds launch = Nanoseconds{5'000});

}  // namespace trainyard::cuda
