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

/// Segments that are recomputed: by op, the one that has a copy of it; and what their copies wait for.
struct RepeatedSegments {
  IdMap<OpId, std::optional<std::size_t>> segment;
  std::vector<std::vector<OpId>> triggers;
};

/// What any schedule of plans does of blocks, from the ops of a rank (LeastCosts). The longest path through forward
/// ops and those that make gradients of anything but parameters goes through blocks one after the other, and back. Of a
/// block count, in either pass, the ops that are behind the path's last op in the pass over the block before, and no
/// later than its last op in this one (the pass's post): whichever device has the block does these in between. Ops that
/// are colocated with another block are not there.
///
/// Tensor ranks: the path itself counts, with its collectives between two ops of one block, where it is longer. For a
/// device runs its tasks one after the other, so a task ends no sooner than the path through it, nor than its ops: with
/// F, B and W the sums of these and P and Q the path forward and back,
///
///     forward                    the longer of F and P
///     gradients of inputs alone  of B and Q; of weights W. Additions A may be of what either makes: those of inputs
///                                leave after the shorter of Q and B + A, and all of it takes B + A; or Q
///     both in one task           those of inputs leave after the shorter of Q and B + W, and it ends after B + W; or
///                                after Q, and with additions A after B + W + A
///
/// each by the sums over all blocks, so that it is right for any of them together.
///
/// A block that is recomputed takes longer by the copies that its post on the way back waits for. With tensor ranks
/// they may run while collectives do: where the path counts, it is longer by a way through copies, from where all of
/// them wait for the path to where it waits for the last one, less what it has in between.
class PlanChain {
 public:
  /// A rank's share of the graph for a microbatch, which it refers to, and how many blocks.
  PlanChain(const Problem& share, std::size_t blocks);

  void add_op(OpId op, std::size_t block, bool at_home, const ParameterUse& use);
  /// `op` is the collective's among ranks.
  void add_collective(OpId op, std::size_t block, Nanoseconds time);
  /// The time in which a gradient that `maker` makes is added to those of earlier microbatches.
  void add_accumulation(OpId maker, Nanoseconds time);
  /// By recomputation of all blocks, and of all scores: that of some has the same copies of these.
  void set_repeated(RepeatedSegments blocks, RepeatedSegments scores);
  /// From the likely costs, what is least.
  std::pair<std::vector<LayerCost>, std::vector<LeastWork>> run(const std::vector<LayerCost>& likely);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  bool passes(OpId op) const { return place_[op] != kNone; }
  std::vector<OpId> longest_path() const;
  void set_posts();
  void order_by_posts();
  Nanoseconds ahead_of(OpId gradient);
  Nanoseconds along_path(OpId gradient) const;
  /// What recomputation adds to a block: ops that its post waits for, and on the path from place to place of it.
  struct Again {
    Nanoseconds ops, along;
    std::size_t from = 0, to = 0;  // on the path, from 1
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
  /// place_: forward passes of blocks, and then their backward passes, in the order of the chain; none of gradients of
  /// weights, and updates.
  IdMap<OpId, std::size_t> block_, place_;
  IdMap<OpId, std::uint8_t> at_home_, weights_;
  RepeatedSegments repeated_blocks_, repeated_scores_;
  std::vector<bool> additions_take_time_;  // by block
  IdMap<TensorId, std::uint8_t> is_gradient_;
  std::vector<OpId> path_;                    // the longest
  std::vector<OpId> posts_;                   // by place
  std::vector<Nanoseconds> along_;            // by place: the path between two of its ops
  std::vector<Bytes> sent_;                   // by place: what the post sends to the next one
  IdMap<OpId, std::size_t> behind_;           // 1 more than the place of the last post before an op, 0: none
  IdMap<OpId, std::size_t> before_;           // the place of the first post behind an op, or which it is
  std::map<std::size_t, Nanoseconds> ahead_;  // known: by `behind_`
  bool ranks_ = false;
};

}  // namespace trainyard
