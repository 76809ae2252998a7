#pragma once

#include <cstdint>

#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/state.hpp"

namespace trainyard::detail {

/// End of a run from a snapshot.
struct DeltaEnd {
  enum class Kind : std::uint8_t {
    complete,  // with this makespan
    above,     // stopped: the makespan is at least this, which is above the limit
    deadlock,  // the turns contradict the graph
  };
  Kind kind;
  Nanoseconds makespan;
};

/// Runs the change from its restart on until the run meets the one on record, ends, or cannot stay within the limit.
///
/// The rules are those of run_commits(), with one loop for both policies: under `strict` an op also waits for the end
/// of the op before it on its device, so that its ready time is the moment of its turn, and committing by (ready, id)
/// remains right.
///
/// `record`: fill in new_runs, new_transfers and new_snapshots too.
DeltaEnd run_delta(const DeltaProblem& problem, DeltaState& state, Nanoseconds limit, bool record);

}  // namespace trainyard::detail
