#include "trainyard/bound/lower_bounds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainyard/bound/chains.hpp"
#include "trainyard/bound/linear.hpp"
#include "trainyard/bound/memory.hpp"
#include "trainyard/bound/work.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/sort_by.hpp"

namespace trainyard {
namespace {

using detail::device_classes;
using detail::DeviceClass;
using detail::gapped_duration;
using detail::Int128;
using detail::kNeverRuns;
using detail::WeightedWork;

Nanoseconds head_tail_bound(const Problem& problem, const Chains& chains, const WeightedWork& work) {
  // The weight that each op adds to the work of a set, and the ops by descending tail.
  IdMap<OpId, Int128> weighed(problem.op_count(), 0);
  std::vector<OpId> by_tail;
  for (const OpId op : problem.ops()) {
    bool any = false;
    for (std::size_t k = 0; k < work.classes().size(); ++k) {
      const std::int64_t cost = gapped_duration(problem, op, work.classes()[k]);
      if (cost == kNeverRuns) continue;
      const Int128 weight = Int128{work.weights()[k]} * cost;
      weighed[op] = any ? std::min<Int128>(weighed[op], weight) : weight;
      any = true;
    }
    by_tail.push_back(op);
  }
  sort_by_descending(by_tail, [&](OpId op) { return chains.tail[op]; });

  std::vector<Nanoseconds> heads = chains.head.values();
  std::ranges::sort(heads);
  heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
  constexpr std::size_t kQuantiles = 64;
  const std::size_t thresholds = std::min(heads.size(), kQuantiles);

  const Int128 capacity = work.capacity(), gaps = work.gaps();
  Nanoseconds best{0};
  for (std::size_t i = 0; i < thresholds; ++i) {
    const Nanoseconds a = heads[i * heads.size() / thresholds];
    Int128 sum = -gaps;
    for (const OpId op : by_tail) {
      if (chains.head[op] < a) continue;
      sum += weighed[op];
      // A set cut off among equal tails gives a weaker but valid bound.
      const Nanoseconds ends = a + chains.tail[op];
      if (sum > Int128{(best - ends).count} * capacity && sum > 0)
        best = ends + Nanoseconds{static_cast<std::int64_t>((sum + capacity - 1) / capacity)};
    }
  }
  return best;
}

}  // namespace

Nanoseconds critical_path_bound(const Problem& problem) { return longest_chain(problem, chains_of_ops(problem)); }

Nanoseconds transfer_path_bound(const Problem& problem) {
  return longest_chain(problem, chains_with_transfers(problem));
}

Nanoseconds colocation_bound(const Problem& problem) {
  const auto classes = device_classes(problem);
  Nanoseconds longest{0};
  for (const GroupId group : problem.groups()) {
    Nanoseconds fastest = kLongestTime;
    for (const DeviceClass& c : classes) {
      std::int64_t sum = 0;
      for (const OpId op : problem.group_ops(group)) {
        const std::int64_t one = gapped_duration(problem, op, c);
        sum = one == kNeverRuns || sum == kNeverRuns ? kNeverRuns : sum + one;
      }
      if (sum == kNeverRuns) continue;
      if (sum > 0) sum -= c.gap.count;  // no gap after the last op
      fastest = std::min(fastest, Nanoseconds{sum});
    }
    longest = std::max(longest, fastest);
  }
  return longest;
}

Nanoseconds work_bound(const Problem& problem) { return WeightedWork{problem}.bound(); }

Nanoseconds head_tail_bound(const Problem& problem) {
  return head_tail_bound(problem, chains_with_transfers(problem), WeightedWork{problem});
}

std::vector<LowerBound> lower_bounds(const Problem& problem, bool fits) {
  const Chains chains = chains_with_transfers(problem);
  const WeightedWork work(problem);
  std::vector<LowerBound> bounds{{"critical-path", critical_path_bound(problem)},
                                 {"colocation", colocation_bound(problem)},
                                 {"work", work.bound()},
                                 {"head-tail", head_tail_bound(problem, chains, work)},
                                 {"transfer-path", longest_chain(problem, chains)}};
  if (!fits) return bounds;
  bounds.push_back({"memory-work", memory_work_bound(problem)});
  bounds.push_back({"linear-program", linear_program_bound(problem)});
  bounds.push_back({"forced-transfer", forced_transfer_bound(problem)});
  return bounds;
}

LowerBound best_lower_bound(const Problem& problem, bool fits) {
  const auto bounds = lower_bounds(problem, fits);
  return *std::ranges::max_element(bounds, {}, &LowerBound::value);  // the first of equals
}

double relative_gap(Nanoseconds time, Nanoseconds bound) {
  return time.count > 0 ? static_cast<double>((time - bound).count) / static_cast<double>(time.count) : 0;
}

}  // namespace trainyard
