#pragma once

#include <optional>
#include <span>

#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard {

/// What the ops of `rewritten` compute, which these rewrites made of `graph`, whose recipe is given: the same numbers.
/// Nothing where a rewrite is none of Recompute and Offload.
std::optional<TrainingRecipe> rewritten_recipe(const TrainingRecipe& recipe, const Graph& graph,
                                               std::span<const Rewrite> rewrites, const Graph& rewritten);

}  // namespace trainyard
