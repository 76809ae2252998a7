#pragma once

#include <span>

#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard {

/// The recipe of apply_rewrites(graph, rewrites), derived from the recipe of `graph`. Together its ops compute the
/// numbers of one device, up to rounding.
///
///     recomputed, offloaded    bit-identical to the original
///     microbatches, replicas   each op computes its share of the samples: the first dimension of the first input, the
///                              dimension of the same length in the others. Microbatches are shares of all samples, and
///                              replicas have shares of a microbatch. The loss and its gradient count as a share of the
///                              mean. Each replica has its own parameters (TrainingRecipe::copies); all begin alike
///     experts, shared rows     replicas compute their experts, for all rows of their group. Attention computes its
///                              queries with all keys, all rows of its heads, or a step of a ring; a replica's rows
///                              are consecutive
///     tensor ranks, split ops  each op computes its share of features, channels, heads, rows or classes, and of
///                              parameters. If ranks share rows, each gets the sum of the gradients of parameters that
///                              it holds whole
///     stages                   ranks and replicas of each; samples are divided and joined between stages
///     tied copies              each copy is a parameter (TrainingRecipe::copies) that begins like the others
///     collectives              sums, and parts put together, in the order of the algorithm or, for whole collectives,
///                              in the order of ranks
///
/// The function differs from that of one device only if each share of the samples has its own statistics (batch norm).
/// Dropout drops the same elements as on one device.
///
/// Throws InputError with the pointer "/splits/N": "not-executed", naming the op, if the computation of a rewritten op
/// is not known (unequal parts, folds, operators that mix different parts, tensor ranks of a graph that is already
/// rewritten), and as apply_rewrites() does.
TrainingRecipe rewritten_recipe(const TrainingRecipe& recipe, const Graph& graph, std::span<const Rewrite> rewrites);

}  // namespace trainyard
