#pragma once

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

/// The event loop with the interface of run_commits(): for fair channels, ops slowed by copies, and user-defined rules.
/// Throws InputError ("held-back") if such a rule holds an op back for ever.
Nanoseconds run_event_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                             bool record, Workspace& workspace);

}  // namespace trainyard::detail
