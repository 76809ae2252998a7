#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainyard/simulate/edited_simulation.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"

namespace trainyard::detail {

/// A dense problem in which ops can be replaced by others and restored. The new ops are appended, and after them the
/// *movers*: copies of the ops that the old ones read from or come after, whose rows change. The old ops stay in place
/// and never become ready. Op ids are those of the edited graph, so that ties are broken as there. Tensors keep the ids
/// of the original graph, and new tensors follow.
class EditedProblem : public DenseProblem {
 public:
  explicit EditedProblem(const Problem& problem);

  /// Replaces ops; `piece` is the problem of piece_graph(). Call restore() before the next replace().
  void replace(const GraphEdit& edit, const Problem& piece);
  void restore();

  std::size_t live_ops = 0;

 private:
  void point_to_rows();
  void find_around(const GraphEdit& edit);
  void number_ops(const GraphEdit& edit);
  void point_at(const GraphEdit& edit, OpId mover);
  void add_op(const GraphEdit& edit, const Problem& piece, std::size_t number);
  void move_op(const GraphEdit& edit, const Problem& piece, OpId op);
  /// Adds a tensor whose row of consumers has been written.
  void add_tensor(TensorId id);
  static bool replaced(const GraphEdit& edit, OpId op) {
    return op >= edit.first && op.index() < edit.first.index() + edit.count;
  }
  /// The op's position, stored as OpId like the rows.
  OpId row_entry(OpId op) const { return OpId{position_now_[op].index()}; }
  OpId row_entry_of_new(std::size_t number) const { return OpId{base_ops_ + number}; }

  const std::size_t base_ops_, base_tensors_, base_edges_;
  IdMap<Position, OpId> base_op_at_;
  IdMap<OpId, Position> base_position_;
  std::vector<Position> base_sources_;
  Nanoseconds base_horizon_;
  bool base_zeros_;
  std::vector<std::uint8_t> base_pair_flags_;
  std::vector<Nanoseconds> own_byte_time_;

  // The edit.
  IdMap<OpId, Position> position_now_;  // by op id in the original graph
  std::vector<OpId> movers_;
  std::vector<OpId> earlier_, later_;    // ops that the old ones come after, and ops that come after them
  IdMap<TensorId, TensorId> tensor_of_;  // by tensor of the piece
  bool zero_added_ = false;              // whether some new op takes no time on some device
  // Overwritten entries of the rows that stay, to be restored.
  std::vector<std::pair<std::size_t, OpId>> old_consumers_, old_before_;
  std::vector<std::pair<Position, std::uint32_t>> old_pending_;
};

}  // namespace trainyard::detail
