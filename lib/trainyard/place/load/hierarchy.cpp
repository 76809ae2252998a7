#include "trainyard/place/load/hierarchy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/load/ideals.hpp"
#include "trainyard/place/load/interval_load.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostBlocks = 600;

/// Of a run of the chain, on one device.
struct Run {
  PassLoad load;
  bool fits = false;
};

class HierarchicalDp {
 public:
  HierarchicalDp(const LoadProblem& problem, const Contraction& blocks, const std::vector<BlockId>& order,
                 const LoadHierarchy& hierarchy, LoadSum sum)
      : order_(order), hierarchy_(hierarchy), sum_(sum), count_(order.size()), runs_((count_ + 1) * (count_ + 1)) {
    while (kind_.index() + 1 < problem.kind_count() && !problem.kind(kind_).pays) kind_ = KindId{kind_.index() + 1};
    measure(problem, blocks);
  }

  HierarchicalSplit run() {
    solve_machines();
    return solve_chain();
  }

 private:
  struct Machine {
    Picoseconds value = kInfiniteLoad;
    std::vector<std::size_t> cuts;  // where its runs end, the last excluded
  };

  Run& run_of(std::size_t from, std::size_t to) { return runs_[from * (count_ + 1) + to]; }

  void measure(const LoadProblem& problem, const Contraction& blocks) {
    IntervalLoad interval{problem, blocks, IdealLattice::chain(order_)};
    interval.set_cap(kInfiniteLoad, 1);
    for (std::size_t from = 0; from < count_; ++from) {
      for (std::size_t to = from; to < count_; ++to) {
        interval.add(static_cast<std::uint32_t>(to));
        run_of(from, to + 1) = {interval.parts(kind_.index()), interval.fits(kind_.index())};
      }
      for (std::size_t to = from; to < count_; ++to) interval.remove(static_cast<std::uint32_t>(to));
    }
  }

  Picoseconds inner(Picoseconds cost) const {
    return Picoseconds{
        static_cast<std::int64_t>(std::floor(static_cast<double>(cost.count) * hierarchy_.inner_share + 0.5))};
  }

  Picoseconds device_load(std::size_t from, std::size_t to, bool first, bool last) {
    const Run& run = run_of(from, to);
    if (!run.fits) return kInfiniteLoad;
    return PassLoad{run.load.compute, first ? Picoseconds{0} : inner(run.load.in),
                    last ? Picoseconds{0} : inner(run.load.out)}
        .load(sum_);
  }

  /// A(begin, end) for all runs.
  void solve_machines() {
    machines_.resize(runs_.size());
    const std::size_t width = count_ + 1;
    std::vector<Picoseconds> best(width * (hierarchy_.devices + 1));
    std::vector<std::size_t> from(best.size());
    for (std::size_t begin = 0; begin < count_; ++begin) {
      std::ranges::fill(best, kInfiniteLoad);
      // best[m, to]: begin to `to` on m devices, with more to come after it.
      for (std::size_t m = 1; m < hierarchy_.devices; ++m)
        for (std::size_t to = begin + 1; to < count_; ++to)
          for (std::size_t cut = m == 1 ? begin : begin + 1; cut < (m == 1 ? begin + 1 : to); ++cut) {
            const Picoseconds before = m == 1 ? Picoseconds{0} : best[(m - 1) * width + cut];
            if (before >= best[m * width + to]) continue;
            const Picoseconds value = std::max(before, device_load(cut, to, cut == begin, false));
            if (value >= best[m * width + to]) continue;
            best[m * width + to] = value;
            from[m * width + to] = cut;
          }
      for (std::size_t end = begin + 1; end <= count_; ++end) {
        Machine& machine = machines_[begin * width + end];
        machine.value = device_load(begin, end, true, true);
        std::size_t devices = 0, last = begin;  // before the last run
        for (std::size_t m = 1; m < hierarchy_.devices; ++m)
          for (std::size_t cut = begin + 1; cut < end; ++cut) {
            const Picoseconds before = best[m * width + cut];
            if (before >= machine.value) continue;
            const Picoseconds value = std::max(before, device_load(cut, end, false, true));
            if (value >= machine.value) continue;
            machine.value = value;
            devices = m;
            last = cut;
          }
        for (; devices > 0; last = from[devices * width + last], --devices) machine.cuts.push_back(last);
        std::ranges::reverse(machine.cuts);
      }
    }
  }

  HierarchicalSplit solve_chain() {
    const std::size_t width = count_ + 1;
    std::vector<Picoseconds> best(width * (hierarchy_.clusters + 1), kInfiniteLoad);
    std::vector<std::size_t> from(best.size(), 0);
    best[0] = Picoseconds{0};
    for (std::size_t c = 1; c <= hierarchy_.clusters; ++c)
      for (std::size_t end = 1; end <= count_; ++end)
        for (std::size_t begin = 0; begin < end; ++begin) {
          const Picoseconds value = std::max(best[(c - 1) * width + begin], machine_load(begin, end));
          if (value >= best[c * width + end]) continue;
          best[c * width + end] = value;
          from[c * width + end] = begin;
        }
    HierarchicalSplit split;
    std::size_t used = 0;
    for (std::size_t c = 1; c <= hierarchy_.clusters; ++c)
      if (best[c * width + count_] < split.value) {
        split.value = best[c * width + count_];
        used = c;
      }
    for (std::size_t end = count_; used > 0; --used) {
      const std::size_t begin = from[used * width + end];
      split.clusters.push_back(cluster_of(begin, end));
      end = begin;
    }
    std::ranges::reverse(split.clusters);
    return split;
  }

  Picoseconds machine_load(std::size_t begin, std::size_t end) {
    const Machine& machine = machines_[begin * (count_ + 1) + end];
    if (machine.value == kInfiniteLoad) return kInfiniteLoad;
    const PassLoad& whole = run_of(begin, end).load;
    return PassLoad{machine.value, whole.in, whole.out}.load(sum_);
  }

  HierarchicalSplit::Cluster cluster_of(std::size_t begin, std::size_t end) {
    HierarchicalSplit::Cluster cluster{.parts = {}, .load = machine_load(begin, end)};
    std::vector<std::size_t> ends = machines_[begin * (count_ + 1) + end].cuts;
    ends.push_back(end);
    std::size_t at = begin;
    for (const std::size_t to : ends) {
      SplitPart part{.kind = kind_, .blocks = {}, .load = device_load(at, to, at == begin, to == end)};
      for (; at < to; ++at) part.blocks.push_back(order_[at]);
      std::ranges::sort(part.blocks);
      cluster.parts.push_back(std::move(part));
    }
    return cluster;
  }

  const std::vector<BlockId>& order_;
  const LoadHierarchy& hierarchy_;
  LoadSum sum_;
  std::size_t count_;
  KindId kind_{0};
  std::vector<Run> runs_;          // from x to
  std::vector<Machine> machines_;  // begin x end
};

}  // namespace

HierarchicalSplit hierarchical_split(const LoadProblem& problem, const Contraction& blocks,
                                     const std::vector<BlockId>& order, const LoadHierarchy& hierarchy, LoadSum sum) {
  if (order.size() > kMostBlocks)
    throw InputError({.code = "too-many-blocks",
                      .message = fmt::format("{} blocks are more than the {} that two levels are solved for",
                                             order.size(), kMostBlocks),
                      .help = "coarser layers make fewer blocks"});
  return HierarchicalDp{problem, blocks, order, hierarchy, sum}.run();
}

}  // namespace trainyard
