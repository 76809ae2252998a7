#pragma once

#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/record.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::detail {

/// The recorded transfers as a timeline lists them: by (producer, tensor, destination).
std::vector<Transfer> recorded_transfers(const DenseProblem& problem, const Placement& placement, const Record& record);

/// The timeline of a recorded run whose memory peaks are known.
Timeline recorded_timeline(const DenseProblem& problem, const Placement& placement, const Record& record,
                           const MemoryPeaks& peaks);

}  // namespace trainyard::detail
