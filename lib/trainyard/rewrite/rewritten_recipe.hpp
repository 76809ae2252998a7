#pragma once

#include <span>

#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard {

/// What the ops of apply_rewrites(graph, rewrites) compute, by the recipe of `graph`: together the numbers of one
/// device, but for rounding.
///
///     recomputed, offloaded    the same bits
///     microbatches, replicas   each op on its share of the samples, the first dimension of the first input, and of the
///                              others that which is as long; microbatches are shares of all samples, of which replicas
///                              have theirs. The loss and its gradient count as a share of the mean. Each replica has
///                              parameters of its own (TrainingRecipe::copies); all begin alike
///     experts, shared rows     replicas compute their experts, for the rows of all of their group; attention all keys
///                              of their queries, all rows of their heads, or a step of a ring, of consecutive rows
///     tensor ranks, split ops  each op on its share of features, channels, heads, rows or classes, and of parameters.
///                              Where ranks share rows, each gets the sum of the gradients of what it holds whole,
///                              which the graph leaves out
///     stages                   ranks and replicas of each; between stages samples are divided and joined
///     tied copies              each a parameter of its own (TrainingRecipe::copies), which begins like the others
///     collectives              sums, and parts put together, in the order of the algorithm, or, of a whole one,
///                              of the ranks
///
/// Another function than on one device is computed where a share of the samples has statistics of its own (batch
/// norm). Dropout drops what it drops on one device.
///
/// Throws InputError with the pointer "/splits/N": "not-executed", naming the op, where it is not known what the ops of
/// a rewrite compute: parts that are not equal, folds, operators that mix what is in different parts, tensor ranks of
/// a graph that is rewritten already; and as apply_rewrites does.
TrainingRecipe rewritten_recipe(const TrainingRecipe& recipe, const Graph& graph, std::span<const Rewrite> rewrites);

}  // namespace trainyard
