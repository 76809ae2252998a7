#pragma once

#include <cassert>
#include <cstdint>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Counts, for each op, the input tensors and control edges whose source has not been taken yet.
class Predecessors {
 public:
  explicit Predecessors(const Graph& graph) : graph_(graph), awaited_(graph.op_count()) {
    for (const OpId op : graph.ops())
      awaited_[op] = static_cast<std::uint32_t>(graph.inputs(op).size() + graph.after(op).size());
  }

  /// Whether all predecessors have been taken.
  bool free(OpId op) const { return awaited_[op] == 0; }

  /// Marks the op as taken, and calls `release(successor)` for each op that thereby becomes free.
  template <class Release>
  void taken(OpId op, Release release) {
    const auto count_down = [&](OpId successor) {
      assert(awaited_[successor] > 0);
      if (--awaited_[successor] == 0) release(successor);
    };
    for (const TensorId tensor : graph_.outputs(op))
      for (const OpId reader : graph_.consumers(tensor)) count_down(reader);
    for (const OpId later : graph_.before(op)) count_down(later);
  }

 private:
  const Graph& graph_;
  IdMap<OpId, std::uint32_t> awaited_;
};

}  // namespace trainyard
