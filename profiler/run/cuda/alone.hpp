#pragma once

#include <vector>

#include "profiler/backend.hpp"
#include "profiler/run/cuda/executor.hpp"

namespace trainyard::cuda {

/// Times each op of the workload `samples` times by itself on the GPU, or on a part of it of `sms`, by events: hot,
/// again and again after two runs that do not count, or cold, after a sweep through four times the memory that its L2
/// cache holds. A wait of the GPU stands before the first event, so that what is timed has been launched by then. The
/// ops before it have run. All tensors of a step are held at once. Throws MissingError, CudaError, InputError as the
/// backend does.
std::vector<AloneSample> time_alone(const Tables& tables, const Target& target, unsigned sms, const Problem& problem,
                                    const Workload& workload, DeviceId device, MeasureMode mode, int samples,
                                    bool tf32 = false);

}  // namespace trainyard::cuda
