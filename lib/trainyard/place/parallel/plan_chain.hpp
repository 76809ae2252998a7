#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/plan/least_step.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {

/// Recomputed segments: by op, the segment that has a copy of it; by segment, the ops that its copies wait for.
struct RepeatedSegments {
  IdMap<OpId, std::optional<std::size_t>> segment;
  std::vector<std::vector<OpId>> triggers;
};

/// Lower bounds on the costs of blocks in any schedule of plans, from the ops of a rank (LeastCosts). Consider the
/// longest path through forward ops and ops that make gradients of anything but parameters. It passes the blocks one
/// after the other, and back. The path's last op in a block, in either pass, is the post of that pass. An op counts for
/// a block if it depends on the post of the block before, and the block's own post depends on it or is it. Whichever
/// device has the block runs these ops in between. Ops that are colocated with another block do not count.
///
/// With tensor ranks the path itself, with its collectives between two ops of one block, counts if it is longer. A
/// device runs its tasks one after the other, so a task ends no sooner than the path through it, nor than its ops. F, B
/// and W are the sums of the ops that make forward results, gradients of inputs, and gradients of weights; P and Q are
/// the lengths of the path forward and back; A is the time of additions:
///
///     forward                    the longer of F and P
///     gradients of inputs alone  the longer of B and Q; those of weights take W. Additions may be in either task:
///                                gradients of inputs leave after the shorter of Q and B + A, and the task ends after
///                                B + A; or both after Q, if it is longer
///     both in one task           gradients of inputs leave after the shorter of Q and B + W, and the task ends after
///                                B + W; or, if longer, after Q, and with additions after B + W + A
///
/// The sums over all blocks decide between these cases, so that the bound holds for any blocks together.
///
/// A recomputed block takes longer by the copies that its backward post waits for. With tensor ranks the copies may run
/// during collectives. If the path counts, it is longer by a path through copies: from the position on the path that
/// all of them wait for to the position that waits for the last one, less the path's own length in between.
class PlanChain {
 public:
  /// `share` is a rank's share of the graph for a microbatch; a reference to it is kept.
  PlanChain(const Problem& share, std::size_t blocks);

  void add_op(OpId op, std::size_t block, bool at_home, const ParameterUse& use);
  /// `op` is the first op of the collective among ranks.
  void add_collective(OpId op, std::size_t block, Nanoseconds time);
  /// `time` is the time to add a gradient that `maker` makes to those of earlier microbatches.
  void add_accumulation(OpId maker, Nanoseconds time);
  /// Segments for recomputation of all blocks, and of all attention scores. Recomputation of some of them has the same
  /// copies of these.
  void set_repeated(RepeatedSegments blocks, RepeatedSegments scores);
  /// Least costs and work of each block, from the likely costs.
  std::pair<std::vector<LayerCost>, std::vector<LeastWork>> run(const std::vector<LayerCost>& likely);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  bool passes(OpId op) const { return place_[op] != kNone; }
  std::vector<OpId> longest_path() const;
  void set_posts();
  void order_by_posts();
  Nanoseconds ahead_of(OpId gradient);
  Nanoseconds along_path(OpId gradient) const;
  /// Additions of recomputation to a block: ops that its post waits for, and the extra length of the path between two
  /// of its positions.
  struct Again {
    Nanoseconds ops, along;
    std::size_t from = 0, to = 0;  // positions on the path, from 1
  };
  std::vector<Again> again(const RepeatedSegments& repeated) const;
  static void leave_overlapping(std::vector<Again>& blocks, std::vector<Again>& scores);
  std::vector<bool> own_sums() const;
  void take_path(std::vector<LayerCost>& chain, std::vector<LeastWork>& work, const std::vector<Again>& blocks,
                 const std::vector<Again>& scores) const;

  const Problem& share_;
  const Graph& graph_;
  const std::size_t blocks_;
  IdMap<OpId, Nanoseconds> time_, collective_;
  /// place_: position in the chain, which is the forward passes of all blocks and then their backward passes. kNone for
  /// ops that make gradients of weights only, and for updates.
  IdMap<OpId, std::size_t> block_, place_;
  IdMap<OpId, std::uint8_t> at_home_, weights_;
  RepeatedSegments repeated_blocks_, repeated_scores_;
  std::vector<bool> additions_take_time_;  // by block
  IdMap<TensorId, std::uint8_t> is_gradient_;
  std::vector<OpId> path_;                    // the longest path
  std::vector<OpId> posts_;                   // by place
  std::vector<Nanoseconds> along_;            // by place: length of the path within it
  std::vector<Bytes> sent_;                   // by place: bytes that the post sends to the next place
  IdMap<OpId, std::size_t> behind_;           // 1 + place of the last post before an op; 0: none
  IdMap<OpId, std::size_t> before_;           // place of the first post after an op, or of itself
  std::map<std::size_t, Nanoseconds> ahead_;  // memo of ahead_of(), by `behind_`
  bool ranks_ = false;
};

}  // namespace trainyard
