#include "trainyard/simulate/lower_bounds.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "trainyard/core/id_map.hpp"

namespace trainyard {
namespace {

__extension__ using Wide = __int128;

/// Longest chains of shortest durations before and after each op, itself excluded.
struct Chains {
  IdMap<OpId, Nanoseconds> head, tail;
};

Chains find_chains(const Problem& problem) {
  const Graph& graph = problem.graph();
  Chains chains{IdMap<OpId, Nanoseconds>(graph.op_count()), IdMap<OpId, Nanoseconds>(graph.op_count())};
  const auto raise = [](Nanoseconds& value, Nanoseconds to) { value = std::max(value, to); };
  const auto& order = graph.topological_order();
  for (const OpId op : order) {
    for (const TensorId tensor : graph.inputs(op)) {
      const OpId earlier = graph.producer(tensor);
      raise(chains.head[op], chains.head[earlier] + problem.shortest(earlier));
    }
    for (const OpId earlier : graph.after(op)) raise(chains.head[op], chains.head[earlier] + problem.shortest(earlier));
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    const OpId op = order[i];
    const Nanoseconds from_here = chains.tail[op] + problem.shortest(op);
    for (const TensorId tensor : graph.inputs(op)) raise(chains.tail[graph.producer(tensor)], from_here);
    for (const OpId earlier : graph.after(op)) raise(chains.tail[earlier], from_here);
  }
  return chains;
}

struct DeviceClass {
  DeviceId example;
  std::int64_t devices = 0;
  Nanoseconds gap{};  // the least
};

std::vector<DeviceClass> device_classes(const Problem& problem) {
  std::vector<DeviceClass> classes(problem.column_count());
  for (const DeviceId device : problem.devices()) {
    DeviceClass& c = classes[problem.column(device)];
    const Nanoseconds gap = problem.cluster().device(device).gap;
    if (c.devices++ == 0) c = {device, 1, gap};
    c.gap = std::min(c.gap, gap);
  }
  return classes;
}

constexpr std::int64_t kNeverRuns = -1;

/// p'(op, class) of the header, kNeverRuns where the class cannot run it.
std::int64_t gapped_duration(const Problem& problem, OpId op, const DeviceClass& c) {
  const Nanoseconds duration = problem.duration(op, c.example);
  if (duration == Problem::kNever) return kNeverRuns;
  return duration.count == 0 ? 0 : duration.count + c.gap.count;
}

/// The work bound for given weights, and the search for good ones.
class WeightedWork {
 public:
  explicit WeightedWork(const Problem& problem)
      : classes_(device_classes(problem)), costs_(problem.group_count() * classes_.size()) {
    for (std::size_t g = 0; g < problem.group_count(); ++g)
      for (std::size_t k = 0; k < classes_.size(); ++k) {
        std::int64_t& cost = costs_[g * classes_.size() + k];
        for (const OpId op : problem.group_ops(GroupId{g})) {
          const std::int64_t one = gapped_duration(problem, op, classes_[k]);
          cost = one == kNeverRuns || cost == kNeverRuns ? kNeverRuns : cost + one;
        }
      }
    search();
  }

  const std::vector<DeviceClass>& classes() const { return classes_; }
  const std::vector<std::int64_t>& weights() const { return best_weights_; }
  Nanoseconds bound() const { return best_; }

  /// sum w D and sum w D g.
  Wide capacity() const { return capacity(best_weights_); }
  Wide gaps() const { return gaps(best_weights_); }

 private:
  Wide capacity(const std::vector<std::int64_t>& weights) const {
    Wide sum = 0;
    for (std::size_t k = 0; k < classes_.size(); ++k) sum += Wide{weights[k]} * classes_[k].devices;
    return sum;
  }
  Wide gaps(const std::vector<std::int64_t>& weights) const {
    Wide sum = 0;
    for (std::size_t k = 0; k < classes_.size(); ++k)
      sum += Wide{weights[k]} * classes_[k].devices * classes_[k].gap.count;
    return sum;
  }

  /// Loads of the classes, every group in the class where it weighs least; keeps the best bound.
  std::vector<Wide> evaluate(const std::vector<std::int64_t>& weights) {
    std::vector<Wide> loads(classes_.size(), 0);
    Wide total = 0;
    for (std::size_t at = 0; at < costs_.size(); at += classes_.size()) {
      std::size_t cheapest = classes_.size();
      Wide least = 0;
      for (std::size_t k = 0; k < classes_.size(); ++k) {
        if (costs_[at + k] == kNeverRuns) continue;
        const Wide cost = Wide{weights[k]} * costs_[at + k];
        if (cheapest != classes_.size() && cost >= least) continue;
        cheapest = k;
        least = cost;
      }
      total += least;
      loads[cheapest] += costs_[at + cheapest];
    }
    const Wide capacity_sum = capacity(weights);
    const Wide work = total - gaps(weights);
    const Nanoseconds bound{work <= 0 ? 0 : static_cast<std::int64_t>((work + capacity_sum - 1) / capacity_sum)};
    if (best_weights_.empty() || bound > best_) {
      best_ = bound;
      best_weights_ = weights;
    }
    return loads;
  }

  void search() {
    if (classes_.size() == 1)
      evaluate({1});
    else if (classes_.size() == 2)
      bisect();
    else
      multiply();
  }

  /// The bound is quasi-concave in the ratio of the two weights: more weight for the class with the larger load.
  void bisect() {
    std::int64_t low = 0, high = std::int64_t{1} << 30;
    const std::int64_t sum = high;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      const auto loads = evaluate({middle, sum - middle});
      (loads[0] * classes_[1].devices > loads[1] * classes_[0].devices ? low : high) = middle;
    }
    evaluate({low, sum - low});
  }

  void multiply() {
    constexpr double kScale = 1 << 20;
    constexpr std::size_t kMostWork = 100'000'000;  // groups x classes x rounds: under a second
    const std::size_t rounds = std::clamp<std::size_t>(kMostWork / costs_.size(), 4, 100);
    std::vector<double> weights(classes_.size(), 1.0);
    for (std::size_t round = 0; round < rounds; ++round) {
      std::vector<std::int64_t> whole;
      const double largest = *std::ranges::max_element(weights);
      for (const double w : weights) whole.push_back(static_cast<std::int64_t>(w / largest * kScale));
      const auto loads = evaluate(whole);
      std::vector<double> relative;
      for (std::size_t k = 0; k < loads.size(); ++k)
        relative.push_back(static_cast<double>(loads[k]) / static_cast<double>(classes_[k].devices));
      const double most = *std::ranges::max_element(relative);
      if (most <= 0) return;
      const double step = 2.0 / static_cast<double>(round + 2);
      for (std::size_t k = 0; k < weights.size(); ++k)
        weights[k] = weights[k] / largest * (1 + step * (relative[k] / most - 0.5));
    }
  }

  std::vector<DeviceClass> classes_;
  std::vector<std::int64_t> costs_;  // group x class
  std::vector<std::int64_t> best_weights_;
  Nanoseconds best_{0};
};

Nanoseconds head_tail_bound(const Problem& problem, const Chains& chains, const WeightedWork& work) {
  // What each op adds to the work of a set, and the ops by descending tail.
  IdMap<OpId, Wide> weighed(problem.op_count(), 0);
  std::vector<OpId> by_tail;
  for (const OpId op : problem.ops()) {
    bool any = false;
    for (std::size_t k = 0; k < work.classes().size(); ++k) {
      const std::int64_t cost = gapped_duration(problem, op, work.classes()[k]);
      if (cost == kNeverRuns) continue;
      const Wide weight = Wide{work.weights()[k]} * cost;
      weighed[op] = any ? std::min<Wide>(weighed[op], weight) : weight;
      any = true;
    }
    by_tail.push_back(op);
  }
  std::ranges::sort(by_tail, [&](OpId a, OpId b) {
    return std::pair{chains.tail[b], a} < std::pair{chains.tail[a], b};
  });

  std::vector<Nanoseconds> heads = chains.head.values();
  std::ranges::sort(heads);
  heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
  constexpr std::size_t kQuantiles = 64;
  const std::size_t thresholds = std::min(heads.size(), kQuantiles);

  const Wide capacity = work.capacity(), gaps = work.gaps();
  Nanoseconds best{0};
  for (std::size_t i = 0; i < thresholds; ++i) {
    const Nanoseconds a = heads[i * heads.size() / thresholds];
    Wide sum = -gaps;
    for (const OpId op : by_tail) {
      if (chains.head[op] < a) continue;
      sum += weighed[op];
      // A set that is cut off among equal tails gives a weaker bound, and a valid one.
      const Nanoseconds ends = a + chains.tail[op];
      if (sum > Wide{(best - ends).count} * capacity && sum > 0)
        best = ends + Nanoseconds{static_cast<std::int64_t>((sum + capacity - 1) / capacity)};
    }
  }
  return best;
}

Nanoseconds longest_chain(const Problem& problem, const Chains& chains) {
  Nanoseconds longest{0};
  for (const OpId op : problem.ops()) longest = std::max(longest, chains.head[op] + problem.shortest(op));
  return longest;
}

}  // namespace

Nanoseconds critical_path_bound(const Problem& problem) { return longest_chain(problem, find_chains(problem)); }

Nanoseconds colocation_bound(const Problem& problem) {
  const auto classes = device_classes(problem);
  Nanoseconds longest{0};
  for (std::size_t g = 0; g < problem.group_count(); ++g) {
    Nanoseconds fastest = kLongestTime;
    for (const DeviceClass& c : classes) {
      std::int64_t sum = 0;
      for (const OpId op : problem.group_ops(GroupId{g})) {
        const std::int64_t one = gapped_duration(problem, op, c);
        sum = one == kNeverRuns || sum == kNeverRuns ? kNeverRuns : sum + one;
      }
      if (sum == kNeverRuns) continue;
      if (sum > 0) sum -= c.gap.count;  // none behind the last one
      fastest = std::min(fastest, Nanoseconds{sum});
    }
    longest = std::max(longest, fastest);
  }
  return longest;
}

Nanoseconds work_bound(const Problem& problem) { return WeightedWork{problem}.bound(); }

Nanoseconds head_tail_bound(const Problem& problem) {
  return head_tail_bound(problem, find_chains(problem), WeightedWork{problem});
}

std::vector<LowerBound> lower_bounds(const Problem& problem) {
  const Chains chains = find_chains(problem);
  const WeightedWork work(problem);
  return {{"critical-path", longest_chain(problem, chains)},
          {"colocation", colocation_bound(problem)},
          {"work", work.bound()},
          {"head-tail", head_tail_bound(problem, chains, work)}};
}

LowerBound best_lower_bound(const Problem& problem) {
  const auto bounds = lower_bounds(problem);
  return *std::ranges::max_element(bounds, {}, &LowerBound::value);  // the first of equals
}

}  // namespace trainyard
