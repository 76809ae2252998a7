#pragma once

#include <span>

#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard {

/// What the ops of apply_rewrites(graph, rewrites) compute, by the recipe of `graph`: together the numbers of one
/// device, but for rounding.
///
///     recomputed, offloaded        the same bits
///     microbatches, replicas       each op on its share of the samples, the first dimension of the inputs; the loss
///                                  and its gradient count as a share of the mean. Parameters and buffers are those of
///                                  each replica (TrainingRecipe::copies); all begin alike
///     collectives                  sums, and parts put together, in the order of the algorithm; of a whole one in the
///                                  order of the ranks
///
/// Another function than on one device is computed of what looks at several samples: a batch norm takes the statistics
/// of each share.
///
/// Throws InputError with the pointer "/splits/N": "not-executed", naming the op, where it is not known what the ops of
/// a rewrite compute; and as apply_rewrites does.
TrainingRecipe rewritten_recipe(const TrainingRecipe& recipe, const Graph& graph, std::span<const Rewrite> rewrites);

}  // namespace trainyard
