#pragma once

#include <vector>

#include "profiler/backend.hpp"

namespace trainyard::cpu {

/// Times each op of the workload `samples` times by itself, on the core of the device, in memory of its own: hot, again
/// and again after two runs that do not count, or cold, after a sweep through more memory than the caches hold. The ops
/// before it have run, so that it reads what it would read in a step. All tensors of a step are held at once.
std::vector<AloneSample> time_alone(const Problem& problem, const Workload& workload, DeviceId device, MeasureMode mode,
                                    int samples);

/// Least time of each op over 1 to `most` threads on as many cores, hot, by hill climbing: its threads, and
/// the times there. Products and element-wise ops use them, others compute alone whatever they are given.
std::vector<ThreadSample> time_threads(const Problem& problem, const Workload& workload, int most, int samples);

}  // namespace trainyard::cpu
