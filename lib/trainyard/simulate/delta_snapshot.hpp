#pragma once

#include <cstdint>

#include "trainyard/simulate/delta_problem.hpp"
#include "trainyard/simulate/delta_state.hpp"

namespace trainyard::detail {

/// Fills in the snapshot from a run that is being recorded, where `task` is the first to come, ready at `head`.
void take_snapshot(const DeltaProblem& problem, const DeltaState& state, std::uint32_t committed, std::uint32_t task,
                   std::int64_t head, Snapshot& snapshot);

/// The run, whose next task is ready at `head`, meets the old one here.
///
/// Two runs *meet* where as many ops are committed and what is left to come depends on the same state, relative to the
/// head of the queue: when devices and channels are free, what has reached the ops of the frontier, and which transfers
/// are under way. Comparing the old run's frontier entry by entry is enough: were an op committed in the new run alone,
/// take the first such; all that it waits for is committed in both, so that it stands in the old frontier (or transfers
/// to it are under way there) and in the new one does not. So the committed ops are the same ones, their number being
/// equal, and a frontier follows from them.
bool meets(const DeltaProblem& problem, const DeltaState& state, const Snapshot& old, std::uint32_t committed,
           std::int64_t head);

/// After a run that met the old one there: all ops and transfers that it reached are as before the first task again.
void clean_up_from(const DeltaProblem& problem, DeltaState& state, const Snapshot& met);
/// The same after a run that ended elsewhere, with so many ops committed.
void clean_up(const DeltaProblem& problem, DeltaState& state, std::uint32_t committed);

}  // namespace trainyard::detail
