#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard::detail {

/// The part of a training step that mixtures of experts compute: between an ExpertDispatch, which puts the tokens of
/// each expert together, and an ExpertCombine, in both passes.
struct ExpertUse {
  explicit ExpertUse(const Graph& graph);

  IdMap<OpId, bool> inside;         // it computes on rows [experts, ...], or updates the weights of experts
  IdMap<TensorId, bool> has_rows;   // made for or by experts, their gradients too
  std::vector<std::size_t> counts;  // experts of each layer that has any, as their ops' signatures say

  /// Ranks that hold different experts exchange the tensor before this op reads it.
  bool crosses(const Graph& graph, TensorId tensor, OpId reader) const {
    return has_rows[tensor] && inside[reader] != inside[graph.producer(tensor)];
  }
};

/// Part `part` of experts divided among `of` ranks.
struct ExpertShare {
  std::size_t part, of;
};
/// Gives an op on experts whose rows are already 1/parts of all (take_share) the weights, state, gradients and updates
/// of the rank's own experts, and the rows that all ranks have for these.
void take_experts(OpSpec& spec, const Graph& graph, OpId op, const ParameterUse& use, ExpertShare share,
                  std::size_t parts);

}  // namespace trainyard::detail
