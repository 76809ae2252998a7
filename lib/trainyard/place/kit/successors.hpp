#pragma once

#include <algorithm>
#include <vector>

#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The ops that must follow the op, readers of its tensors or behind a control edge; each once, by ascending id.
inline std::vector<OpId> successors_of(const Graph& graph, OpId op) {
  std::vector<OpId> list{graph.before(op).begin(), graph.before(op).end()};
  for (const TensorId tensor : graph.outputs(op))
    list.insert(list.end(), graph.consumers(tensor).begin(), graph.consumers(tensor).end());
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

/// Successor function for topological_order(): visits each reader of the op's tensors, once for every tensor read, and
/// each op behind a control edge.
inline auto successors_in(const Graph& graph) {
  return [&graph](OpId op, const auto& visit) {
    for (const TensorId tensor : graph.outputs(op))
      for (const OpId reader : graph.consumers(tensor)) visit(reader);
    for (const OpId later : graph.before(op)) visit(later);
  };
}

}  // namespace trainyard
