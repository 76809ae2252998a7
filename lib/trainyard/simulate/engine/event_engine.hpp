#pragma once

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

/// The event loop behind the interface of run_commits(): for fair channels, and for rules of the caller's own. Throws
/// InputError where such a rule holds an op back for ever ("held-back").
Nanoseconds run_event_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                             bool record, Workspace& workspace);

}  // namespace trainyard::detail
