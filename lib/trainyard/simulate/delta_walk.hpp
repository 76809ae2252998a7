#pragma once

#include <cstdint>

#include "trainyard/simulate/delta_problem.hpp"
#include "trainyard/simulate/delta_state.hpp"

namespace trainyard::detail {

/// How a run from a snapshot ended.
struct DeltaEnd {
  enum class Kind : std::uint8_t {
    complete,  // with this makespan
    above,     // stopped: the makespan is at least this, which is above the limit
    deadlock,  // the turns contradict the graph
  };
  Kind kind;
  std::int64_t makespan;
};

/// Runs the change from its restart on until the run meets the one on record, ends, or cannot stay within the limit.
///
/// The engine is that of run_commits(), with one loop for both policies: under `strict` an op also waits for the end of
/// the op before it on its device, so that its ready time is the moment of its turn, and committing by (ready, id)
/// remains right.
///
/// `record`: fill in new_runs, new_transfers and new_snapshots too.
DeltaEnd run_delta(const DeltaProblem& problem, DeltaState& state, std::int64_t limit, bool record);

}  // namespace trainyard::detail
