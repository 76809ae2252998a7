#pragma once

#include "trainyard/simulate/delta_problem.hpp"
#include "trainyard/simulate/delta_state.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

/// Makes the run of the change, which must be complete and recorded, the run on record. Costs as much as there was to
/// run again, and a little for each snapshot: what only moves in time moves by the heads of its epochs.
void accept_run(const DeltaProblem& problem, DeltaState& state);

/// The run on record as run_commits() would leave it.
void fill_record(const DeltaProblem& problem, const DeltaState& state, Workspace::Record& record);

}  // namespace trainyard::detail
