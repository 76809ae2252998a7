#pragma once

#include <cstddef>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The pipeline task that each op is part of.
struct PipelineWork {
  IdMap<OpId, DeviceId> home;     // device whose task it is; the op may be placed elsewhere, with its group
  IdMap<OpId, std::size_t> task;  // position in its device's sequence; updates: after all tasks
  std::size_t tasks = 0;          // per device, at most
};

/// Returns a strict schedule in which each device runs its ops in the order of its tasks. Within a task, ops run in the
/// order in which they become ready (ties: topological order); all ops of a task start before any op of the next. Ops
/// that are not at home, but placed with their group, run when they are ready. The order comes from a run without
/// contention for links. Tasks may wait for each other in a cycle, if stages hand activations back and forth. A ready
/// task then goes ahead, so there is always an order.
Schedule in_task_order(const Problem& problem, const Placement& placement, const PipelineWork& work);

}  // namespace trainyard
