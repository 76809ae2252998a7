#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

using EdgeId = Id<struct EdgeTag>;

/// A graph as Baechi sees it: at most one edge between two ops, which carries all tensors that one reads from the other
/// (none for a control dependency). Edges are numbered by the op that they lead to and, for one op, in the order in
/// which it lists its inputs.
class OpEdges {
 public:
  explicit OpEdges(const Graph& graph);

  std::size_t size() const { return from_.size(); }
  OpId from(EdgeId edge) const { return from_[edge.index()]; }
  OpId to(EdgeId edge) const { return to_[edge.index()]; }
  std::span<const TensorId> tensors(EdgeId edge) const { return tensors_[edge]; }

  IdRange<EdgeId> into(OpId op) const { return {first_[op.index()], first_[op.index() + 1]}; }
  /// Edges out of the op, by ascending id of the op that they lead to.
  std::span<const EdgeId> out_of(OpId op) const { return out_[op]; }

  /// All ops, first come, first served: ops without inputs by ascending id, then each op when the last one that it
  /// depends on has been taken.
  std::vector<OpId> fifo_order() const;

 private:
  std::vector<OpId> from_, to_;
  std::vector<std::uint32_t> first_;  // by op, and an end marker
  CompressedRows<EdgeId, TensorId> tensors_;
  CompressedRows<OpId, EdgeId> out_;
};

}  // namespace trainyard
