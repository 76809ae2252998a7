#pragma once

#include <cstdint>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

/// Runs a schedule that has passed check_schedule with the engine that its policy and the cluster ask for. Arguments
/// and result are those of run_commits().
std::int64_t run_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                        bool record, Workspace& workspace);

}  // namespace trainyard::detail
