#pragma once

#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/state.hpp"
#include "trainyard/simulate/engine/record.hpp"

namespace trainyard::detail {

/// Makes the run of the change, which must be complete and recorded, the current run. Costs as much as the tasks that
/// were run again, plus a little per snapshot: an epoch that is only shifted in time is shifted by its head.
void accept_run(const DeltaProblem& problem, DeltaState& state);

/// Writes the current run as run_commits() would.
void fill_record(const DeltaProblem& problem, const DeltaState& state, Record& record);

}  // namespace trainyard::detail
