#pragma once

#include <vector>

#include "trainyard/simulate/engine/collectives_in_place.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/priority_lines.hpp"
#include "trainyard/simulate/engine/ready_queue.hpp"
#include "trainyard/simulate/engine/record.hpp"
#include "trainyard/simulate/engine/strict_turns.hpp"
#include "trainyard/simulate/engine/walk_state.hpp"

namespace trainyard::detail {

/// Memory that the engines write to, allocated once per problem, so that a run allocates nothing. One per thread.
struct Workspace {
  explicit Workspace(const DenseProblem& problem)
      : walk(problem), turns(problem.devices), receivers(problem.devices), collectives(problem.problem) {}

  WalkState walk;
  ReadyQueues queues;               // fifo, strict
  StrictTurns turns;                // strict
  std::vector<DeviceId> receivers;  // fifo, strict: room for the devices that need the current tensor
  CollectivesInPlace collectives;   // all
  PriorityLines lines;              // links by priority
  Record record;                    // all engines, if the run is recorded
};

}  // namespace trainyard::detail
