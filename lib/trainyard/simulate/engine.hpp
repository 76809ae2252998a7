#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/transfers.hpp"

namespace trainyard::detail {

/// When each task runs. `ready` of a transfer is the end of its producer.
struct TaskTimes {
  IdMap<OpId, Span> ops;
  IdMap<TransferId, Nanoseconds> transfer_ready;
  IdMap<TransferId, Span> transfers;
};

/// The event loop behind simulate(): one event per task that takes time and one per gap, in a heap by time; one heap
/// of waiting tasks per device and per channel. Each instant is processed in the two phases of the rules, so the order
/// among events of one instant is immaterial. The schedule must have passed check_schedule.
TaskTimes run_events(const Problem& problem, const Schedule& schedule, const PlannedTransfers& transfers);

}  // namespace trainyard::detail
