#pragma once

#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

/// The transfers that a run recorded, as a timeline lists them: by (producer, tensor, destination).
std::vector<Transfer> recorded_transfers(const DenseProblem& problem, const Placement& placement,
                                         const Workspace::Record& record);

}  // namespace trainyard::detail
