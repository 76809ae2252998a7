#include "trainyard/place/load/dpl.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "trainyard/core/random.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/load/ideal_dp.hpp"
#include "trainyard/place/load/ideals.hpp"

namespace trainyard {
namespace {

/// Longest time from each block's start to the end, with every block on its fastest kind.
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
  const bool by_height = kind == LinearOrder::height, from_front = by_height || kind == LinearOrder::breadth;
  const std::vector<std::int64_t> height = by_height ? heights(problem, blocks) : std::vector<std::int64_t>{};
  std::set<std::tuple<std::int64_t, std::size_t, BlockId>> free;  // by height, then in the order of becoming free
  std::size_t count = 0;
  const auto add = [&](BlockId block) { free.emplace(by_height ? -height[block.index()] : 0, count++, block); };
  std::vector<std::size_t> awaited(blocks.size());
  std::vector<BlockId> order;
  for (std::size_t i = 0; i < blocks.size(); ++i) awaited[i] = blocks.predecessors[BlockId{i}].size();
  for (std::size_t i = 0; i < blocks.size(); ++i)  // the lowest is taken first
    if (const std::size_t at = from_front ? i : blocks.size() - 1 - i; awaited[at] == 0) add(BlockId{at});
  Random random{seed};
  while (!free.empty()) {
    auto at = from_front ? free.begin() : std::prev(free.end());
    if (kind == LinearOrder::drawn)
      while (at != free.begin() && random.chance(0.3)) --at;
    const BlockId block = std::get<BlockId>(*at);
    free.erase(at);
    order.push_back(block);
    const auto next = blocks.successors[block];
    for (std::size_t i = next.size(); i-- > 0;)
      if (--awaited[next[i].index()] == 0) add(next[i]);
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
