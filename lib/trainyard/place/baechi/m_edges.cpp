#include "trainyard/place/baechi/m_edges.hpp"

#include <utility>

#include "trainyard/core/id_map.hpp"

namespace trainyard {

OpEdges::OpEdges(const Graph& graph) {
  IdMap<OpId, OpId> seen_by(graph.op_count());  // the last op that had an edge from this one
  IdMap<OpId, std::uint32_t> at(graph.op_count());
  std::vector<std::pair<EdgeId, TensorId>> carried;
  const auto edge_between = [&](OpId from, OpId to) {
    if (seen_by[from] != to) {
      seen_by[from] = to;
      at[from] = static_cast<std::uint32_t>(from_.size());
      from_.push_back(from);
      to_.push_back(to);
    }
    return EdgeId{at[from]};
  };
  for (const OpId op : graph.ops()) {
    first_.push_back(static_cast<std::uint32_t>(from_.size()));
    for (const TensorId tensor : graph.inputs(op))
      carried.emplace_back(edge_between(graph.producer(tensor), op), tensor);
    for (const OpId earlier : graph.after(op)) edge_between(earlier, op);
  }
  first_.push_back(static_cast<std::uint32_t>(from_.size()));
  tensors_ = {size(), carried};

  std::vector<std::pair<OpId, EdgeId>> leaving;
  leaving.reserve(size());
  for (std::size_t e = 0; e < size(); ++e) leaving.emplace_back(from_[e], EdgeId{e});
  out_ = {graph.op_count(), leaving};
}

std::vector<OpId> OpEdges::fifo_order() const {
  const std::size_t ops = first_.size() - 1;
  IdMap<OpId, std::size_t> waits_for(ops);
  std::vector<OpId> order;
  order.reserve(ops);
  for (const OpId op : waits_for.ids()) {
    waits_for[op] = into(op).size();
    if (waits_for[op] == 0) order.push_back(op);
  }
  for (std::size_t next = 0; next < order.size(); ++next)
    for (const EdgeId edge : out_of(order[next]))
      if (--waits_for[to(edge)] == 0) order.push_back(to(edge));
  return order;
}

}  // namespace trainyard
