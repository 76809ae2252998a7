#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/edited_simulation.hpp"

namespace trainyard::detail {

/// A dense problem in which ops can be replaced by others and put back. Positions are not ids here: the new ops, and
/// those that others read from (*movers*), whose rows change, are appended; the old ones stay where they are and never
/// become ready. Ids are those of the graph as it would be, so that ties are broken as there; tensors keep the ids of
/// the graph as it is, new ones follow.
class EditedProblem : public DenseProblem {
 public:
  explicit EditedProblem(const Problem& problem);

  /// `piece`: the problem of piece_graph(). Not twice without restore().
  void replace(const GraphEdit& edit, const Problem& piece);
  void restore();

  std::size_t live_ops = 0;

 private:
  using Position = std::uint32_t;

  void point_to_rows();
  void find_around(const GraphEdit& edit);
  void number_ops(const GraphEdit& edit);
  void point_at(const GraphEdit& edit, OpId mover);
  void add_op(const GraphEdit& edit, const Problem& piece, std::size_t number);
  void move_op(const GraphEdit& edit, const Problem& piece, OpId op);
  /// Its row of consumers has been written.
  void add_tensor(std::uint32_t id);
  static bool replaced(const GraphEdit& edit, OpId op) {
    return op >= edit.first && op.index() < edit.first.index() + edit.count;
  }
  Position position_now(OpId op) const { return position_now_[op.index()]; }

  const std::size_t base_ops_, base_tensors_, base_edges_;
  std::vector<Position> base_op_at_, base_position_, base_sources_;
  std::int64_t base_horizon_;
  bool base_zeros_;
  std::vector<std::uint8_t> base_pair_flags_;
  std::vector<Nanoseconds> own_byte_time_;

  // Of an edit.
  std::vector<Position> position_now_;    // by id in the graph as it is
  std::vector<OpId> movers_;              // those that the old ones read from or come after
  std::vector<OpId> earlier_, later_;     // those that the old ones come after, and that come after them
  std::vector<std::uint32_t> tensor_of_;  // by tensor of the piece
  bool zero_added_ = false;               // some new op takes no time somewhere
  // What was in the rows that stay.
  std::vector<std::pair<std::size_t, OpId>> old_consumers_, old_before_;
  std::vector<std::pair<Position, std::uint32_t>> old_pending_;
};

}  // namespace trainyard::detail
