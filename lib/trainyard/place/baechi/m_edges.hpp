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

/// A graph as Baechi sees it: at most one edge between two ops, which carries all tensors that the one reads of the
/// other (none where it only runs after it). Edges are numbered by the op that they lead to, and of one op in the order
/// in which it mentions its inputs.
class OpEdges {
 public:
  explicit OpEdges(const Graph& graph);

  std::size_t size() const { return from_.size(); }
  OpId from(EdgeId edge) const { return from_[edge.index()]; }
  OpId to(EdgeId edge) const { return to_[edge.index()]; }
  std::span<const TensorId> tensors(EdgeId edge) const { return tensors_[edge]; }

  IdRange<EdgeId> into(OpId op) const { return {first_[op.index()], first_[op.index() + 1]}; }
  /// By ascending id of the op that they lead to.
  std::span<const EdgeId> out_of(OpId op) const { return out_[op]; }

  /// All ops, first come, first served: those without inputs by ascending id, then each when the last op that it
  /// depends on has been taken.
  std::vector<OpId> fifo_order() const;

 private:
  std::vector<OpId> from_, to_;
  std::vector<std::uint32_t> first_;  // by op, and one more
  CompressedRows<EdgeId, TensorId> tensors_;
  CompressedRows<OpId, EdgeId> out_;
};

}  // namespace trainyard
