#pragma once

#include <vector>

#include "profiler/backend.hpp"

namespace trainyard::cuda {

/// What an op takes by itself, and the least that its shape allows:
///
///     bound = max(bytes / bandwidth, FLOPs / peak) + launch
struct KernelBound {
  OpId op;
  Nanoseconds time, bound;
  bool ours = true;  // no product, convolution, batch norm, softmax or average pool: those are cuBLAS's and cuDNN's
  /// How many times the bound.
  double ratio() const { return static_cast<double>(time.count) / static_cast<double>(bound.count); }
};
/// More than this many times its bound is too slow for a kernel of ours.
inline constexpr double kMostOfBound = 3;

/// Bounds of each op of the workload but inputs, on the first device with warm caches: the median of a few runs, by the
/// device's peak and memory bandwidth. `launch`: the time of an op whatever its shape. Throws as Backend::time_alone.
std::vector<KernelBound> kernel_bounds(Backend& backend, const Problem& problem, const Workload& workload,
                                       Nanoseconds launch = Nanoseconds{5'000});

}  // namespace trainyard::cuda
