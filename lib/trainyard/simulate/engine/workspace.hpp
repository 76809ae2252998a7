#pragma once

#include <vector>

#include "trainyard/simulate/engine/collectives_in_place.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/priority_lines.hpp"
#include "trainyard/simulate/engine/ready_queue.hpp"
#include "trainyard/simulate/engine/record.hpp"
#include "trainyard/simulate/engine/walk_state.hpp"

namespace trainyard::detail {

/// Position of each device in its strict order, and the devices to look at.
struct StrictTurns {
  explicit StrictTurns(std::size_t count) : devices(count) { to_run.reserve(count); }

  struct Turn {
    const OpId* next = nullptr;
    const OpId* end = nullptr;
    bool listed = false;  // in `to_run`, or running
  };
  IdMap<DeviceId, Turn> devices;
  std::vector<DeviceId> to_run;
};

/// Memory that a run writes, each engine its own part: sized once for a problem, so that a run allocates nothing. One
/// per thread.
struct Workspace {
  explicit Workspace(const DenseProblem& problem)
      : walk(problem), turns(problem.devices), receivers(problem.devices), collectives(problem.problem) {}

  WalkState walk;
  ReadyQueues queues;               // fifo, strict
  StrictTurns turns;                // strict
  std::vector<DeviceId> receivers;  // fifo, strict: room for the devices that want the tensor at hand
  CollectivesInPlace collectives;   // fifo, strict
  PriorityLines lines;              // priority
  Record record;                    // all, of runs that are recorded
};

}  // namespace trainyard::detail
