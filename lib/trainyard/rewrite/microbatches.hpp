#pragma once

#include <cstddef>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// A training step whose batch is computed in m equal parts, the gradients of which add up before the update:
///
///     an op of the forward or backward pass   m copies "conv~1", ..., each with its share of the batch (take_share)
///     a gradient of parameters                that of part k is added to the sum of those before by an op
///                                             "GRADIENT/accumulate~k" of type "AddGrad"
///     an update                               once, of the sum
///
/// Parameters and state are held once, by the copy of part 1, as is a "Variable" of either pass, and all copies of ops
/// that touch them stay in their group. Weights that replicas gather (ZeRO 3) each part gathers whole, once the ops of
/// the group that read those of the part before have ended: so the part before frees them, and no part is far ahead.
/// Gradients that replicas add within the pass (is_turn) wait for those of the part before in the same way.
/// The copies of another group are a group for each part. How small a part of a batch can be is not looked at.
///
/// With `at_once` the first ops of a part (that read nothing but data and parameters) wait for the deepest op of the
/// backward pass that these lead to, in each of the `at_once` parts before: no pass begins ahead of its turn while
/// ranks or replicas wait for each other.
struct MicrobatchGraph {
  Graph graph;
  std::size_t microbatches = 1;
  IdMap<OpId, OpId> original{};           // of an accumulation: the op that made the gradient
  IdMap<OpId, std::size_t> microbatch{};  // from 0; `microbatches` for updates
};
/// One is the graph itself. Throws InputError ("unsplittable") for none.
MicrobatchGraph split_batch(const Graph& graph, std::size_t microbatches, std::size_t at_once = 0);

/// The op that adds a gradient to the sum of those before, without name, inputs and outputs: reads both, writes one. It
/// takes no time where its maker's is given.
OpSpec accumulation(const Graph& graph, TensorId gradient);

}  // namespace trainyard
