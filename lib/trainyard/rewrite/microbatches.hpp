#pragma once

#include <cstddef>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A training step whose batch is computed in m equal microbatches, with gradients accumulated before the update:
///
///     an op of the forward or backward pass   m copies "conv~1", ..., each with its share of the batch (take_share)
///     a gradient of parameters                that of microbatch k is added to the sum of the earlier ones by an op
///                                             "GRADIENT/accumulate~k" of type "AddGrad"
///     an update                               once, of the sum
///
/// The copy of microbatch 1 holds parameters and state; a "Variable" of either pass has only this copy. All copies of
/// ops that touch parameters stay in their group. If replicas gather weights (ZeRO 3), each microbatch gathers them
/// again, after the ops that read those of the previous microbatch have ended. So the previous microbatch frees them
/// first, and no microbatch runs far ahead. Gradients that replicas reduce within the backward pass (is_turn) wait for
/// those of the previous microbatch in the same way. Any other colocation group becomes one group per microbatch. How
/// small a part of a batch can be is not checked.
///
/// With `at_once`, microbatches form blocks of `at_once`. The first ops of a microbatch (its data, and ops that read
/// only weights) wait for the deepest backward op that they lead to, in each microbatch of the previous block. So no
/// pass begins ahead of its turn while ranks or replicas wait for each other.
struct MicrobatchGraph {
  Graph graph;
  std::size_t microbatches = 1;
  IdMap<OpId, OpId> original{};           // for an accumulation: the op that made the gradient
  IdMap<OpId, std::size_t> microbatch{};  // from 0; `microbatches` for updates
};
/// One microbatch gives the graph itself. Throws InputError ("unsplittable") for zero.
MicrobatchGraph split_batch(const Graph& graph, std::size_t microbatches, std::size_t at_once = 0);

/// The op that adds a gradient to the sum of the earlier ones, without name, inputs and outputs. It reads both and
/// writes one. It takes no time if the time of the gradient's maker is given.
OpSpec accumulation(const Graph& graph, TensorId gradient);

}  // namespace trainyard
