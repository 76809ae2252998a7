#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/place/load/split.hpp"
#include "trainyard/throughput/contraction.hpp"

namespace trainyard {

/// Topological orders of the blocks that keep neighbours close.
enum class LinearOrder : std::uint8_t {
  depth,    // what became free last goes first, as in the published program
  breadth,  // what became free first goes first
  height,   // what has the most time after it goes first
  drawn,    // drawn by the seed, among what became free last more often
};
std::vector<BlockId> linear_order(const LoadProblem& problem, const Contraction& blocks, LinearOrder kind,
                                  std::uint64_t seed = 1);

/// The best contiguous split along linear orders: best_split() on chains of blocks + 1 ideals, O(blocks^2) pairs each.
/// Tries the three fixed orders and `drawn` ones. On the published workloads it is the optimum or within 1 % of it.
///
/// J. Tarnawski et al., NeurIPS 2020, section 5.1.2 (DPL).
Split dpl(const LoadProblem& problem, const Contraction& blocks, const SplitOptions& options = {},
          std::size_t drawn = 4, std::uint64_t seed = 1);

}  // namespace trainyard
