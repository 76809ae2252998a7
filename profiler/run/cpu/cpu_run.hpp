#pragma once

#include <memory>

#include "profiler/backend.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"

namespace trainyard {

/// A schedule on worker threads. Unsupported input must have been refused by the backend.
std::unique_ptr<PreparedRun> make_cpu_run(const Problem& problem, const Workload& workload, const Schedule& schedule,
                                          const CpuOptions& options);

}  // namespace trainyard
