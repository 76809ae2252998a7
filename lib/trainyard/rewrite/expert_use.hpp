#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard::detail {

/// The part of a training step that computes mixtures of experts, in both passes: the ops between an ExpertDispatch,
/// which groups the tokens by expert, and an ExpertCombine.
struct ExpertUse {
  explicit ExpertUse(const Graph& graph);

  IdMap<OpId, bool> inside;         // computes on rows [experts, ...], or updates weights of experts
  IdMap<TensorId, bool> has_rows;   // rows made for or by experts, and their gradients
  std::vector<std::size_t> counts;  // number of experts of each mixture, from signatures

  /// Whether ranks that hold different experts exchange the tensor before `reader` reads it.
  bool crosses(const Graph& graph, TensorId tensor, OpId reader) const {
    return has_rows[tensor] && inside[reader] != inside[graph.producer(tensor)];
  }
};

/// Part `part` of experts divided among `of` ranks.
struct ExpertShare {
  std::size_t part, of;
};
/// Turns an op on experts into that of one rank. Its rows are already 1/parts of all (take_share()). It gets the
/// weights, state, gradients and updates of only the rank's own experts, and the rows that all ranks have for these
/// experts.
void take_experts(OpSpec& spec, const Graph& graph, OpId op, const ParameterUse& use, ExpertShare share,
                  std::size_t parts);

}  // namespace trainyard::detail
