#include "trainyard/place/load/dpl.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/core/random.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/load/ideal_dp.hpp"
#include "trainyard/place/load/ideals.hpp"

namespace trainyard {
namespace {

/// The longest time from each block's start to the end, on the fastest kind.
std::vector<std::int64_t> heights(const LoadProblem& problem, const Contraction& blocks) {
  const std::size_t kinds = problem.kind_count();
  std::vector<std::int64_t> height(blocks.size(), 0);
  for (std::size_t i = blocks.size(); i-- > 0;) {
    for (const BlockId next : blocks.successors[BlockId{i}]) height[i] = std::max(height[i], height[next.index()]);
    std::int64_t least = -1;
    for (std::size_t k = 0; k < kinds; ++k) {
      if (blocks.forward[i * kinds + k] == kNeverLoad) continue;
      const std::int64_t time = (blocks.forward[i * kinds + k] + blocks.backward[i * kinds + k]).count;
      least = least < 0 ? time : std::min(least, time);
    }
    height[i] += std::max<std::int64_t>(least, 0);
  }
  return height;
}

}  // namespace

std::vector<BlockId> linear_order(const LoadProblem& problem, const Contraction& blocks, LinearOrder kind,
                                  std::uint64_t seed) {
  std::vector<std::size_t> awaited(blocks.size());
  std::vector<BlockId> free, order;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    awaited[i] = blocks.predecessors[BlockId{i}].size();
    if (awaited[i] == 0) free.emplace_back(i);
  }
  if (kind == LinearOrder::depth || kind == LinearOrder::drawn)
    std::ranges::reverse(free);  // the lowest is taken first
  const std::vector<std::int64_t> height =
      kind == LinearOrder::height ? heights(problem, blocks) : std::vector<std::int64_t>{};
  Random random{seed};
  while (!free.empty()) {
    std::size_t at = kind == LinearOrder::breadth ? 0 : free.size() - 1;
    if (kind == LinearOrder::drawn)
      while (at > 0 && random.chance(0.3)) --at;
    if (kind == LinearOrder::height)
      at = static_cast<std::size_t>(
          std::ranges::max_element(free, {}, [&](BlockId block) { return height[block.index()]; }) - free.begin());
    const BlockId block = free[at];
    free.erase(free.begin() + static_cast<std::ptrdiff_t>(at));
    order.push_back(block);
    const auto next = blocks.successors[block];
    for (std::size_t i = next.size(); i-- > 0;)
      if (--awaited[next[i].index()] == 0) free.push_back(next[i]);
  }
  return order;
}

Split dpl(const LoadProblem& problem, const Contraction& blocks, const SplitOptions& options, std::size_t drawn,
          std::uint64_t seed) {
  std::vector<std::pair<LinearOrder, std::uint64_t>> orders{
      {LinearOrder::depth, seed}, {LinearOrder::breadth, seed}, {LinearOrder::height, seed}};
  for (std::size_t i = 0; i < drawn; ++i) orders.emplace_back(LinearOrder::drawn, seed + i);
  Split best;
  std::uint64_t pairs = 0;
  SplitOptions within = options;
  std::vector<std::vector<BlockId>> tried;
  for (const auto& [kind, number] : orders) {
    std::vector<BlockId> order = linear_order(problem, blocks, kind, number);
    if (std::ranges::find(tried, order) != tried.end()) continue;
    tried.push_back(order);
    if (best.found()) within.limit = std::min(within.limit, best.value - Picoseconds{1});
    try {
      Split split = best_split(problem, blocks, IdealLattice::chain(std::move(order)), within);
      pairs += split.pairs;
      if (split.value < best.value) best = std::move(split);
    } catch (const OutOfTime&) {
      if (!best.found()) throw;
      break;
    }
  }
  best.ideals = blocks.size() + 1;
  best.pairs = pairs;
  return best;
}

}  // namespace trainyard
