#pragma once

#include <cstdint>

#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/state.hpp"

namespace trainyard::detail {

/// Result of a run from a snapshot.
struct DeltaEnd {
  enum class Kind : std::uint8_t {
    complete,  // `makespan` is exact
    above,     // the run was stopped; `makespan` is a lower bound above the limit
    deadlock,  // the turns contradict the graph
  };
  Kind kind;
  Nanoseconds makespan;
};

/// Runs the change from its restart until the run meets the current one, ends, or must exceed the limit.
///
/// The rules are those of run_commits(), with one loop for both policies. Under `strict` an op also waits for the end
/// of the op before it on its device. Its ready time is then the time of its turn, so committing by (ready, id) remains
/// correct.
///
/// `record`: also fills in new_runs, new_transfers and new_snapshots.
DeltaEnd run_delta(const DeltaProblem& problem, DeltaState& state, Nanoseconds limit, bool record);

}  // namespace trainyard::detail
