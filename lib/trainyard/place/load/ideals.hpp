#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainyard/throughput/contraction.hpp"

namespace trainyard {

/// Sets of blocks at which a contiguous split may cut, and the pairs of them that differ by one block. Each set is an
/// ideal: it holds all predecessors of its blocks. The first is empty, the last holds all blocks, and each comes after
/// its subsets.
class IdealLattice {
 public:
  /// Removing the block of this rank, which has no successor in the ideal, leaves `ideal`.
  struct Step {
    std::uint32_t rank;  // of the removed block in `order`
    std::uint32_t ideal;
  };

  /// All ideals of the forward graph. Throws InputError "too-many-ideals" if there are more than `most`, OutOfTime once
  /// `stop` returns true.
  static IdealLattice all(const Contraction& blocks, std::size_t most, std::function<bool()> stop = {});
  /// Only the prefixes of a topological order: the empty one, and one per block.
  static IdealLattice chain(std::vector<BlockId> order);

  std::size_t size() const { return first_.size() - 1; }
  /// Block of a rank. Ranks ascend from a block to its successors.
  BlockId block(std::uint32_t rank) const { return order_[rank]; }
  std::size_t block_count() const { return order_.size(); }
  /// Blocks that can be removed from the ideal, by ascending rank.
  std::span<const Step> steps(std::size_t ideal) const {
    return {steps_.data() + first_[ideal], steps_.data() + first_[ideal + 1]};
  }

 private:
  std::vector<BlockId> order_;
  std::vector<std::uint32_t> first_;  // of each ideal, into steps_
  std::vector<Step> steps_;
};

}  // namespace trainyard
