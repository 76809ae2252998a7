#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard {

/// 16 hexadecimal digits that identify a schedule of the problem: placement and order.
std::string schedule_key(const Problem& problem, const Schedule& schedule);

/// Writes a `trainyard-recipe/1` file (io/FORMATS.md) for programs that run the step elsewhere (profiler/torch/run.py):
/// the computation and the inputs of every op of a training step, and schedules as tasks in issue order. Initial values
/// are those of the cpu backend with this seed.
///
/// Throws InputError ("splits") if a schedule has rewrites.
void write_recipe(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed,
                  const std::vector<std::pair<std::string, Schedule>>& schedules, std::ostream& out);

}  // namespace trainyard
