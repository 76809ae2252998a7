#pragma once

#include <cstdint>

#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/state.hpp"

namespace trainyard::detail {

/// Fills in the snapshot from a run that is being recorded, where `task` is the first to come, ready at `head`.
void take_snapshot(const DeltaProblem& problem, const DeltaState& state, std::uint32_t committed, std::uint32_t task,
                   Nanoseconds head, Snapshot& snapshot);

/// True if the run, whose next task is ready at `head`, meets the old one here.
///
/// Two runs *meet* where as many ops are committed and the rest of both depends on the same state, relative to the head
/// of the queue: when devices and channels are free, which inputs have reached the ops of the frontier, and which
/// transfers are under way. Comparing the old run's frontier entry by entry is enough: were an op committed in the new
/// run alone, take the first such op; everything that it waits for is committed in both, so that it stands in the old
/// frontier (or transfers to it are under way there) and not in the new one. So the committed ops are the same ones,
/// their number being equal, and a frontier follows from them.
bool meets(const DeltaProblem& problem, const DeltaState& state, const Snapshot& old, std::uint32_t committed,
           Nanoseconds head);

/// Resets all ops and transfers that a run has reached to before the first task, after a run that met the old one
/// there.
void clean_up_from(const DeltaProblem& problem, DeltaState& state, const Snapshot& met);
/// Resets them after a run that ended elsewhere, with so many ops committed.
void clean_up(const DeltaProblem& problem, DeltaState& state, std::uint32_t committed);

}  // namespace trainyard::detail
