#pragma once

#include <cassert>
#include <cstdint>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// Number of predecessors of each op that have still to be taken, a tensor counting as one.
class Predecessors {
 public:
  explicit Predecessors(const Graph& graph) : graph_(graph), awaited_(graph.op_count()) {
    for (const OpId op : graph.ops())
      awaited_[op] = static_cast<std::uint32_t>(graph.inputs(op).size() + graph.after(op).size());
  }

  /// All of them have been taken.
  bool free(OpId op) const { return awaited_[op] == 0; }

  /// Calls `release(successor)` for each op that this one alone had still kept from being free.
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
