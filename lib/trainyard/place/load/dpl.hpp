#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/place/load/split.hpp"
#include "trainyard/throughput/contraction.hpp"

namespace trainyard {

/// Topological orders of the blocks that keep neighbours close. A block is free once its predecessors are placed.
enum class LinearOrder : std::uint8_t {
  depth,    // the block freed last goes first, as in the published program
  breadth,  // the block freed first goes first
  height,   // the block with the longest path after it goes first
  drawn,    // random, with a preference for blocks freed last
};
std::vector<BlockId> linear_order(const LoadProblem& problem, const Contraction& blocks, LinearOrder kind,
                                  std::uint64_t seed = 1);

/// Best contiguous split along linear orders: best_split() on chains of blocks + 1 ideals, O(blocks^2) pairs each.
/// Tries the three fixed orders and `drawn` random ones. On the published workloads the result is the optimum or within
/// 1 % of it.
///
/// J. Tarnawski et al., NeurIPS 2020, section 5.1.2 (DPL).
Split dpl(const LoadProblem& problem, const Contraction& blocks, const SplitOptions& options = {},
          std::size_t drawn = 4, std::uint64_t seed = 1);

}  // namespace trainyard
