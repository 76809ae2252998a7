#pragma once

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

inline constexpr Nanoseconds kDeadlock{-1};

/// The event loop behind the interface of run_commits(): for fair channels, and for rules of the caller's own. Strict
/// orders may contradict the graph: kDeadlock then. Throws InputError where a rule of the caller's own holds an op back
/// for ever ("held-back").
Nanoseconds run_event_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                             bool record, Workspace& workspace);

}  // namespace trainyard::detail
