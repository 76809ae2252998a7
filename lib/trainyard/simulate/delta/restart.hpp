#pragma once

#include <cstdint>

#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/state.hpp"

namespace trainyard::detail {

/// Finds the latest snapshot from which a run of the change may start: state.change.ops is given and already in force
/// (devices, turns, reset), the rest of state.change is filled in.
///
/// A new run need not reach a changed op before the earlier of its two commits, the old one and the new one. Its inputs
/// take other routes before that, but often nothing else depends on them: a transfer in closed form is added or removed
/// without a trace where the transfers behind it on the channel start when they did. So a producer committed long ago
/// (a forward activation that a backward op reads) is left alone, and the restart differs from the snapshot in the
/// state of the changed ops and in when those channels are free. Where a later transfer would start at another time, or
/// the transfer takes the queue, the run starts before its producer.
void plan_restart(const DeltaProblem& problem, DeltaState& state);

/// Finds op.pending and op.ready at a snapshot no later than the op's commits: how many inputs are missing there, and
/// the latest arrival of the others.
void find_reached(const DeltaProblem& problem, const DeltaState& state, std::uint32_t snapshot, Change::Op& op);

/// Calls set(channel, free) for each channel that is free at another time at the snapshot because of change.edits.
template <class Set>
void patch_channels(const DeltaState& state, const DeltaProblem& problem, std::uint32_t snapshot, const Set& set) {
  const auto& edits = state.change.edits;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const Change::Edit& edit = edits[i];
    if (edit.channel.is_none() || state.runs[problem.producer[edit.tensor]].epoch >= snapshot) continue;
    // The last edit of the channel before the snapshot decides, unless another transfer has come since.
    if (i + 1 < edits.size() && edits[i + 1].channel == edit.channel &&
        state.runs[problem.producer[edits[i + 1].tensor]].epoch < snapshot)
      continue;
    if (edit.next.is_none() || state.transfers[edit.next].epoch >= snapshot) set(edit.channel, edit.free_after);
  }
}

}  // namespace trainyard::detail
