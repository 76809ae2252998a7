#pragma once

#include <cstddef>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The task that each op is part of.
struct PipelineWork {
  IdMap<OpId, DeviceId> home;     // the device whose task it is; the op may be placed elsewhere (its group is)
  IdMap<OpId, std::size_t> task;  // position in its device's sequence; updates: behind them
  std::size_t tasks = 0;          // of a device, at most
};

/// Each device's ops in the order of its tasks: of one task those first that are ready first (ties: topological
/// order), and no op of the next before all of one have started. Ops that are not at home, which are only there because
/// their group is, run when they are ready. Made by running it without contention for links; where tasks wait for each
/// other in a circle, which stages that hand activations back and forth can, one that is ready goes ahead, so there is
/// always an order. The result is a strict schedule.
Schedule in_task_order(const Problem& problem, const Placement& placement, const PipelineWork& work);

}  // namespace trainyard
