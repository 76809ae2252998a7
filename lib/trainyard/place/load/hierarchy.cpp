#include "trainyard/place/load/hierarchy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/place/load/ideals.hpp"
#include "trainyard/place/load/interval_load.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostBlocks = 600;

/// Transfer costs of a run of the chain, by the side of the other end: received from it, and sent to it. In training
/// both passes cross a cut.
struct Traffic {
  std::int64_t in_left = 0, in_right = 0;
  std::int64_t out_left = 0, out_right = 0, out_both = 0;  // to the left only, to the right only, to both

  Traffic& operator+=(const Traffic& other) {
    in_left += other.in_left;
    in_right += other.in_right;
    out_left += other.out_left;
    out_right += other.out_right;
    out_both += other.out_both;
    return *this;
  }
};

/// Load of a run of the chain on one device.
struct Run {
  Picoseconds time{};
  Traffic traffic;
  bool fits = false;

  /// `left` and `right` say whether that end is open; transfers across a closed end are not counted.
  PassLoad load(bool left, bool right) const {
    return {time, Picoseconds{(left ? traffic.in_left : 0) + (right ? traffic.in_right : 0)},
            Picoseconds{(left ? traffic.out_left : 0) + (right ? traffic.out_right : 0) +
                        (left || right ? traffic.out_both : 0)}};
  }
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
    std::vector<std::size_t> cuts;  // ends of its runs, except the last
  };

  Run& run_of(std::size_t from, std::size_t to) { return runs_[from * (count_ + 1) + to]; }

  void measure(const LoadProblem& problem, const Contraction& blocks) {
    IntervalLoad interval{problem, blocks, IdealLattice::chain(order_)};
    interval.set_cap(kInfiniteLoad, 1);
    for (std::size_t from = 0; from < count_; ++from) {
      for (std::size_t to = from; to < count_; ++to) {
        interval.add(static_cast<std::uint32_t>(to));
        Run& run = run_of(from, to + 1);
        run.time = interval.parts(kind_.index()).compute;
        run.fits = interval.fits(kind_.index());
      }
      for (std::size_t to = from; to < count_; ++to) interval.remove(static_cast<std::uint32_t>(to));
    }
    std::vector<std::size_t> place(count_);
    for (std::size_t i = 0; i < count_; ++i) place[order_[i].index()] = i;
    for (std::size_t t = 0; t < blocks.tensors.size(); ++t) {
      std::vector<std::size_t> readers;
      for (const BlockId reader : blocks.tensors[t].consumers) readers.push_back(place[reader.index()]);
      std::ranges::sort(readers);
      count_tensor(place[blocks.tensors[t].producer.index()], readers,
                   blocks.costs[t * problem.kind_count() + kind_.index()].count);
    }
    // Prefix sums over the ends turn changes into values.
    for (std::size_t from = 0; from < count_; ++from)
      for (std::size_t to = from + 1; to < count_; ++to) run_of(from, to + 1).traffic += run_of(from, to).traffic;
  }

  /// Adds a tensor to the traffic of all runs, as changes from one end to the next for each beginning.
  void count_tensor(std::size_t producer, const std::vector<std::size_t>& readers, std::int64_t cost) {
    const auto change = [&](std::size_t from, std::size_t first, std::size_t last, std::int64_t Traffic::*what) {
      first = std::max(first, from + 1);
      if (first > last) return;  // changes runs that end at `first` to `last`
      run_of(from, first).traffic.*what += cost;
      if (last < count_) run_of(from, last + 1).traffic.*what -= cost;
    };
    for (std::size_t from = 0; from < count_; ++from) {
      const auto next = std::ranges::lower_bound(readers, from);
      if (producer >= from) {
        const bool left = readers.front() < from;
        const std::size_t last = readers.back();  // outside of runs that end at or before it
        change(from, producer + 1, last, left ? &Traffic::out_both : &Traffic::out_right);
        if (left) change(from, std::max(producer, last) + 1, count_, &Traffic::out_left);
        if (next != readers.end()) change(from, *next + 1, producer, &Traffic::in_right);
      } else if (next != readers.end()) {
        change(from, *next + 1, count_, &Traffic::in_left);
      }
    }
  }

  Picoseconds inner(Picoseconds cost) const {
    return Picoseconds{
        static_cast<std::int64_t>(std::floor(static_cast<double>(cost.count) * hierarchy_.inner_share + 0.5))};
  }

  Picoseconds device_load(std::size_t from, std::size_t to, bool first, bool last) {
    const Run& run = run_of(from, to);
    if (!run.fits) return kInfiniteLoad;
    const PassLoad load = run.load(!first, !last);
    return PassLoad{load.compute, inner(load.in), inner(load.out)}.load(sum_);
  }

  /// Computes A(begin, end) for all runs.
  void solve_machines() {
    machines_.resize(runs_.size());
    const std::size_t width = count_ + 1;
    std::vector<Picoseconds> best(width * (hierarchy_.devices + 1));
    std::vector<std::size_t> from(best.size());
    for (std::size_t begin = 0; begin < count_; ++begin) {
      std::ranges::fill(best, kInfiniteLoad);
      // best[m, to]: least load of `begin` to `to` on m devices, if more devices follow.
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
        std::size_t devices = 0, last = begin;  // number of devices before the last run, and its start
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
    const PassLoad whole = run_of(begin, end).load(true, true);
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
    refuse("too-many-blocks",
           fmt::format("{} blocks are too many: two levels of devices are solved for at most {} blocks", order.size(),
                       kMostBlocks),
           "use coarser layers, which make fewer blocks");
  return HierarchicalDp{problem, blocks, order, hierarchy, sum}.run();
}

}  // namespace trainyard
