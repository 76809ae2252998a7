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

/// 16 hexadecimal digits that tell the problem's schedules apart: where each op runs, and the order.
std::string schedule_key(const Problem& problem, const Schedule& schedule);

/// Writes a `trainyard-recipe/1` file (io/FORMATS.md): what every op of a training step computes and from what numbers,
/// and schedules of it as tasks in the order in which to issue them, for programs that run it elsewhere
/// (profiler/torch/run.py). Values begin as those of the cpu backend with this seed.
///
/// Throws InputError ("splits") where a schedule has rewrites.
void write_recipe(const Problem& problem, const TrainingRecipe& recipe, std::uint64_t seed,
                  const std::vector<std::pair<std::string, Schedule>>& schedules, std::ostream& out);

}  // namespace trainyard
