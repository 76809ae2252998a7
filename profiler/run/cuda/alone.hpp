#pragma once

#include <vector>

#include "profiler/backend.hpp"
#include "profiler/run/cuda/executor.hpp"

namespace trainyard::cuda {

/// Times each op of the workload `samples` times alone by events, on the GPU or on a part of it with `sms` SMs. Hot:
/// repeatedly, after two runs that do not count. Cold: after a sweep through four times the size of the L2 cache. A
/// delay kernel precedes the first event, so that the timed work is launched before it starts. Earlier ops have run.
/// All tensors of a step are held at once. Throws MissingError, CudaError and InputError as the backend does.
std::vector<AloneSample> time_alone(const Tables& tables, const Target& target, unsigned sms, const Problem& problem,
                                    const Workload& workload, DeviceId device, MeasureMode mode, int samples,
                                    bool tf32 = false);

}  // namespace trainyard::cuda
