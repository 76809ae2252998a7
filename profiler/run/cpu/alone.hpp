#pragma once

#include <vector>

#include "profiler/backend.hpp"

namespace trainyard::cpu {

/// Times each op of the workload `samples` times alone, on the core of the device, in separate memory. Hot: repeatedly,
/// after two runs that do not count. Cold: after a sweep through more memory than the caches hold. Earlier ops have
/// run, so that an op reads the data of a step. All tensors of a step are held at once.
std::vector<AloneSample> time_alone(const Problem& problem, const Workload& workload, DeviceId device, MeasureMode mode,
                                    int samples);

/// Hot times of each op on its best number of threads from 1 to `most`, on as many cores, found by hill climbing.
/// Products and element-wise ops use the threads; other ops always compute on one.
std::vector<ThreadSample> time_threads(const Problem& problem, const Workload& workload, int most, int samples);

}  // namespace trainyard::cpu
