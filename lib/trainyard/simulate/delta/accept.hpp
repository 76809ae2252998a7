#pragma once

#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/state.hpp"
#include "trainyard/simulate/engine/record.hpp"

namespace trainyard::detail {

/// Makes the run of the change, which must be complete and recorded, the run on record. The cost is that of the tasks
/// that were run again, and a little for each snapshot: epochs that only move in time move by their heads.
void accept_run(const DeltaProblem& problem, DeltaState& state);

/// Writes the run on record as run_commits() would.
void fill_record(const DeltaProblem& problem, const DeltaState& state, Record& record);

}  // namespace trainyard::detail
