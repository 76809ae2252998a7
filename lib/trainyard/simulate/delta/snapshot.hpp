#pragma once

#include <cstdint>

#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/state.hpp"

namespace trainyard::detail {

/// Writes the snapshot of a run that is being recorded; `task` is the next task, ready at `head`.
void take_snapshot(const DeltaProblem& problem, const DeltaState& state, std::uint32_t committed, std::uint32_t task,
                   Nanoseconds head, Snapshot& snapshot);

/// Whether the run, whose next task is ready at `head`, meets the old run here.
///
/// Two runs *meet* if the same number of ops is committed and their remaining parts depend on the same state, relative
/// to the head of the queue: when devices and channels become free, which inputs have reached the ops of the frontier,
/// and which transfers are in flight. It suffices to compare the entries of the old frontier. Suppose that some op is
/// committed only in the new run, and take the first such op: all its dependencies are committed in both runs, so it is
/// in the old frontier (or transfers to it are in flight there) but not in the new one. Therefore the same ops are
/// committed, as their number is equal, and the frontiers are equal too.
bool meets(const DeltaProblem& problem, const DeltaState& state, const Snapshot& old, std::uint32_t committed,
           Nanoseconds head);

/// Resets all ops and transfers that a run has reached to their initial state, after a run that met the old one at
/// `met`.
void clean_up_from(const DeltaProblem& problem, DeltaState& state, const Snapshot& met);
/// Resets them after a run that ended otherwise, with `committed` ops committed.
void clean_up(const DeltaProblem& problem, DeltaState& state, std::uint32_t committed);

}  // namespace trainyard::detail
