#pragma once

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

/// Runs a schedule that has passed check_schedule() with the fastest engine for its policy and the cluster. Arguments
/// and result are those of run_commits().
Nanoseconds run_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations, bool record,
                       Workspace& workspace);

}  // namespace trainyard::detail
