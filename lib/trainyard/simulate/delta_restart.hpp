#pragma once

#include <cstdint>

#include "trainyard/simulate/delta_problem.hpp"
#include "trainyard/simulate/delta_state.hpp"

namespace trainyard::detail {

/// Finds how late a run of the change may start: state.change.ops is given and already in force (devices, turns,
/// reset), the rest of state.change is filled in.
///
/// A changed op need not be reached by a new run before the first of its commits, the old one and the new one. That its
/// inputs take other ways matters earlier, but often to nobody: a transfer in closed form is added or taken away
/// without a trace where the transfers behind it on the channel start when they did. So a producer committed long ago
/// (a forward activation that a backward op reads) is left alone, and what differs at the restart is the state of the
/// changed ops and when those channels are free. Where somebody would notice, or the transfer takes the queue, the run
/// starts before its producer.
void plan_restart(const DeltaProblem& problem, DeltaState& state);

/// What the op still misses at a snapshot no later than its commits, and the latest of what has arrived.
void find_reached(const DeltaProblem& problem, const DeltaState& state, std::uint32_t snapshot, Change::Op& op);

/// Calls set(channel, free) for each channel that is free at another time at the snapshot because of change.edits.
template <class Set>
void patch_channels(const DeltaState& state, const DeltaProblem& problem, std::uint32_t snapshot, const Set& set) {
  const auto& edits = state.change.edits;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const Change::Edit& edit = edits[i];
    if (edit.channel == kNone || state.runs[problem.producer[edit.tensor]].epoch >= snapshot) continue;
    // The last edit of the channel before the snapshot says, unless another transfer has come since.
    if (i + 1 < edits.size() && edits[i + 1].channel == edit.channel &&
        state.runs[problem.producer[edits[i + 1].tensor]].epoch < snapshot)
      continue;
    if (edit.next == kNone || state.transfers[edit.next].epoch >= snapshot) set(edit.channel, edit.free_after);
  }
}

}  // namespace trainyard::detail
