#pragma once

#include <optional>

#include "arguments.hpp"
#include "inputs.hpp"
#include "results.hpp"
#include "trainyard/place/placer.hpp"

namespace trainyard::program {

/// What a placer is to make small: --objective.
Objective chosen_objective(const Arguments& arguments);

/// What MODEL is judged by under --objective max-load: its value beside a bound, and whether the placement keeps the
/// memory. That of a dnn-partitioning workload is the published one, sizes alone; of everything else, the simulator's.
void judge_by_load(RunResult& run, bool published_memory);

/// When each model of the run ends, and the bound of their sum.
void judge_by_completion(RunResult& run);

/// The placer that is asked where none is named.
const Placer& usual_placer(Objective objective);

}  // namespace trainyard::program
