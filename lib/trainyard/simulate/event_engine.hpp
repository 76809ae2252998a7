#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/transfers.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

/// When each task runs. `ready` of a transfer is the end of its producer.
struct TaskTimes {
  IdMap<OpId, Span> ops;
  IdMap<TransferId, Nanoseconds> transfer_ready;
  IdMap<TransferId, Span> transfers;
  bool complete = true;  // false: strict orders that contradict the graph kept some from running
};

/// The event loop behind simulate(): one event per task that takes time and one per gap, in a heap by time; one heap
/// of waiting tasks per device and per channel. Each instant is processed in the two phases of the rules, so the order
/// among events of one instant is immaterial. The only engine for fair channels. The schedule must have passed
/// check_schedule. `durations`: by op id, in place of the problem's; null: the problem's.
TaskTimes run_events(const Problem& problem, const Schedule& schedule, const PlannedTransfers& transfers,
                     const Nanoseconds* durations = nullptr);

inline constexpr std::int64_t kDeadlock = -1;

/// The same behind the interface of run_commits(). Here strict orders may contradict the graph: kDeadlock then.
std::int64_t run_event_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                              bool record, Workspace& workspace);

}  // namespace trainyard::detail
