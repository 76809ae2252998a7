#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainyard/throughput/contraction.hpp"

namespace trainyard {

/// Sets of blocks at which a contiguous split may cut, each closed downwards (an ideal: with a block all before it),
/// and which of them lie one block apart. The first is empty, the last holds all, and each comes after its subsets.
class IdealLattice {
 public:
  /// Taking `block`, one that nothing of the ideal comes after, leaves `ideal`.
  struct Step {
    std::uint32_t rank;  // of the block in `order`
    std::uint32_t ideal;
  };

  /// All ideals of the forward graph. Throws InputError ("too-many-ideals") beyond `most`, OutOfTime once `stop` says
  /// so.
  static IdealLattice all(const Contraction& blocks, std::size_t most, std::function<bool()> stop = {});
  /// Only those along a topological order: as many as blocks, and the empty one.
  static IdealLattice chain(std::vector<BlockId> order);

  std::size_t size() const { return first_.size() - 1; }
  /// Block of a rank. Ranks ascend from a block to those after it.
  BlockId block(std::uint32_t rank) const { return order_[rank]; }
  std::size_t block_count() const { return order_.size(); }
  /// By ascending rank.
  std::span<const Step> steps(std::size_t ideal) const {
    return {steps_.data() + first_[ideal], steps_.data() + first_[ideal + 1]};
  }

 private:
  std::vector<BlockId> order_;
  std::vector<std::uint32_t> first_;  // of each ideal, into steps_
  std::vector<Step> steps_;
};

}  // namespace trainyard
