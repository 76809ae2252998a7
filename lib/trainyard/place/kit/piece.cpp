#include "trainyard/place/kit/piece.hpp"

#include <utility>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/op_spec.hpp"

namespace trainyard {

Graph piece_of(const Graph& graph, std::span<const OpId> ops) {
  IdMap<OpId, bool> within(graph.op_count(), false);
  for (const OpId op : ops) within[op] = true;
  GraphBuilder builder{graph.name()};
  OpView view;
  for (const OpId op : ops) {
    view_op(graph, op, view);
    view.inputs.clear();
    view.after.clear();
    for (const TensorId tensor : graph.inputs(op))
      if (within[graph.producer(tensor)]) view.inputs.push_back(graph.name(tensor));
    for (const OpId earlier : graph.after(op))
      if (within[earlier]) view.after.push_back(graph.name(earlier));
    builder.add_view(view);
  }
  return std::move(builder).build();
}

Problem first_ops(const Problem& problem, std::size_t count) {
  return problem.with_graph(piece_of(problem.graph(), std::span{problem.graph().topological_order()}.first(count)));
}

}  // namespace trainyard
