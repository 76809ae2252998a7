#pragma once

#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/record.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::detail {

/// The recorded transfers in the order of a timeline: by (producer, tensor, destination).
std::vector<Transfer> recorded_transfers(const DenseProblem& problem, const Placement& placement, const Record& record);

/// The timeline of a recorded run with known memory peaks.
Timeline recorded_timeline(const DenseProblem& problem, const Placement& placement, const Record& record,
                           const MemoryPeaks& peaks);

}  // namespace trainyard::detail
