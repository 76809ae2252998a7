#pragma once

#include <cstdint>

#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/state.hpp"

namespace trainyard::detail {

/// Finds the latest snapshot from which a run of the change may start. state.change.ops must be set and already applied
/// (devices, turns, reset); fills in the rest of state.change.
///
/// A new run must start before the earlier of a changed op's two commits, the old and the new one. Before that its
/// inputs take different routes, but often nothing else is affected. A transfer in closed form can be added or removed
/// if all transfers behind it on its channel keep their start times. So a producer that was committed long ago (such as
/// a forward activation that a backward op reads) is not run again, and the state at the restart differs from the
/// snapshot only in the changed ops and in the times at which those channels become free. If a later transfer would
/// start at another time, or the transfer uses the queue, the run starts before its producer.
void plan_restart(const DeltaProblem& problem, DeltaState& state);

/// Sets op.pending and op.ready for a snapshot no later than the op's commits: the number of inputs that are missing
/// there, and the latest arrival of the others.
void find_reached(const DeltaProblem& problem, const DeltaState& state, std::uint32_t snapshot, Change::Op& op);

/// Calls set(channel, free) for each channel that becomes free at another time at the snapshot because of change.edits.
template <class Set>
void patch_channels(const DeltaState& state, const DeltaProblem& problem, std::uint32_t snapshot, const Set& set) {
  const auto& edits = state.change.edits;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const Change::Edit& edit = edits[i];
    if (edit.channel.is_none() || state.runs[problem.producer[edit.tensor]].epoch >= snapshot) continue;
    // The channel's last edit before the snapshot counts, unless another transfer follows it before the snapshot.
    if (i + 1 < edits.size() && edits[i + 1].channel == edit.channel &&
        state.runs[problem.producer[edits[i + 1].tensor]].epoch < snapshot)
      continue;
    if (edit.next.is_none() || state.transfers[edit.next].epoch >= snapshot) set(edit.channel, edit.free_after);
  }
}

}  // namespace trainyard::detail
