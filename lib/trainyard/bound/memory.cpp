#include "trainyard/bound/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

#include "trainyard/bound/chains.hpp"
#include "trainyard/bound/work.hpp"
#include "trainyard/core/disjoint_sets.hpp"

namespace trainyard {
namespace {

using detail::DeviceClass;
using detail::Int128;
using detail::kNeverRuns;

/// The dual of the linear program: evaluates it at weights and prices, and searches good ones.
class PricedWork {
 public:
  PricedWork(const Problem& problem, std::vector<std::int64_t> bytes)
      : classes_(detail::device_classes(problem)),
        costs_(detail::group_costs(problem, classes_)),
        bytes_(std::move(bytes)),
        capacity_(classes_.size(), 0),
        limited_(classes_.size(), true) {
    for (const DeviceId device : problem.devices()) {
      const auto memory = problem.cluster().device(device).memory;
      const std::size_t c = problem.column(device);
      if (memory)
        capacity_[c] += static_cast<double>(memory->count);
      else
        limited_[c] = false;
    }
  }

  bool worthwhile() const {
    return classes_.size() > 1 && std::ranges::find(limited_, true) != limited_.end() &&
           std::accumulate(bytes_.begin(), bytes_.end(), std::int64_t{0}) > 0;
  }

  Nanoseconds search() {
    if (classes_.size() == 2) {
      for (std::size_t k = 0; k < 2; ++k)
        if (limited_[k]) search_pair(k);
    } else {
      multiply();
    }
    return best_;
  }

 private:
  static constexpr double kScale = 1 << 30;

  /// The maximum of a concave function on [0, most], by golden section.
  template <class Function>
  static double highest(double most, int rounds, const Function& value) {
    constexpr double kGolden = 0.6180339887498949;
    double low = 0, high = most, a = high - kGolden * (high - low), b = low + kGolden * (high - low);
    double at_a = value(a), at_b = value(b);
    for (int round = 0; round < rounds; ++round) {
      if (at_a < at_b) {
        low = a;
        a = b;
        at_a = at_b;
        b = low + kGolden * (high - low);
        at_b = value(b);
      } else {
        high = b;
        b = a;
        at_b = at_a;
        a = high - kGolden * (high - low);
        at_a = value(a);
      }
    }
    return std::max(at_a, at_b);
  }

  /// Two classes, with a price on the bytes of one: nested search of the best price for each weight. The dual is
  /// concave in both together.
  void search_pair(std::size_t priced) {
    double dearest = 0;  // highest useful price: the largest cost per byte of a group
    for (std::size_t g = 0; g < bytes_.size(); ++g)
      if (bytes_[g] > 0)
        dearest = std::max(dearest, static_cast<double>(costs_[2 * g + 1 - priced]) / static_cast<double>(bytes_[g]));
    highest(kScale, 28, [&](double weight) {
      return highest(std::min(kScale * 1e6, kScale * dearest), 28, [&](double price) {
        std::vector<std::int64_t> w(2), v(2, 0);
        w[priced] = static_cast<std::int64_t>(weight);
        w[1 - priced] = static_cast<std::int64_t>(kScale) - w[priced];
        v[priced] = static_cast<std::int64_t>(price);
        return evaluate(w, v);
      });
    });
  }

  void multiply() {
    std::vector<double> weights(classes_.size(), 1), prices(classes_.size(), 1e-3);
    constexpr std::size_t kMostWork = 50'000'000;
    const std::size_t rounds = std::clamp<std::size_t>(kMostWork / (costs_.size() + 1), 4, 200);
    for (std::size_t round = 0; round < rounds; ++round) {
      // Scales prices like weights: the share of the capacity that bytes take, times the best bound so far.
      const double time = std::max(1.0, static_cast<double>(best_.count));
      std::vector<std::int64_t> w, v;
      const double largest = *std::ranges::max_element(weights);
      for (std::size_t k = 0; k < classes_.size(); ++k) {
        w.push_back(static_cast<std::int64_t>(weights[k] / largest * kScale));
        const double share = static_cast<double>(classes_[k].devices) * time / std::max(1.0, capacity_[k]);
        v.push_back(
            limited_[k] ? static_cast<std::int64_t>(std::min(kScale * 1e3, prices[k] / largest * kScale * share)) : 0);
      }
      evaluate(w, v);
      double most = 0;
      for (std::size_t k = 0; k < classes_.size(); ++k) {
        loads_[k] /= static_cast<double>(classes_[k].devices) * time;
        held_[k] = limited_[k] ? held_[k] / std::max(1.0, capacity_[k]) : 0;
        most = std::max({most, loads_[k], held_[k]});
      }
      if (most <= 0) break;
      const double step = 4.0 / static_cast<double>(round + 4);
      for (std::size_t k = 0; k < classes_.size(); ++k) {
        weights[k] = weights[k] / largest * (1 + step * (loads_[k] / most - 0.5));
        prices[k] = prices[k] / largest * (1 + step * (held_[k] / most - 0.5));
      }
    }
  }

  /// The bound for these weights and prices, which may be below 0. Sets loads_ and held_ by class.
  double evaluate(const std::vector<std::int64_t>& w, const std::vector<std::int64_t>& v) {
    loads_.assign(classes_.size(), 0);
    held_.assign(classes_.size(), 0);
    Int128 total = 0;
    for (std::size_t g = 0; g < bytes_.size(); ++g) {
      std::size_t cheapest = classes_.size();
      Int128 least = 0;
      for (std::size_t k = 0; k < classes_.size(); ++k) {
        const std::int64_t cost = costs_[g * classes_.size() + k];
        if (cost == kNeverRuns) continue;
        const Int128 priced = Int128{w[k]} * cost + Int128{v[k]} * bytes_[g];
        if (cheapest != classes_.size() && priced >= least) continue;
        cheapest = k;
        least = priced;
      }
      total += least;
      loads_[cheapest] += static_cast<double>(costs_[g * classes_.size() + cheapest]);
      held_[cheapest] += static_cast<double>(bytes_[g]);
    }
    Int128 capacity = 0;
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      capacity += Int128{w[k]} * classes_[k].devices;
      total -= Int128{w[k]} * classes_[k].devices * classes_[k].gap.count;
      if (limited_[k]) total -= Int128{v[k]} * static_cast<std::int64_t>(capacity_[k]);
    }
    if (capacity <= 0) return 0;
    if (total > 0) {
      const Int128 bound = std::min<Int128>((total + capacity - 1) / capacity, kLongestTime.count);
      best_ = std::max(best_, Nanoseconds{static_cast<std::int64_t>(bound)});
    }
    return static_cast<double>(total) / static_cast<double>(capacity);
  }

  std::vector<DeviceClass> classes_;
  std::vector<std::int64_t> costs_;  // group x class
  std::vector<std::int64_t> bytes_;
  std::vector<double> capacity_;  // bytes by class: whole numbers below 2^53
  std::vector<bool> limited_;
  std::vector<double> loads_, held_;  // of the last evaluation, by class
  Nanoseconds best_{0};
};

/// Connected components of the ops, joined by edges and groups.
DisjointSets connected_parts(const Problem& problem) {
  DisjointSets parts{problem.op_count()};
  const Graph& graph = problem.graph();
  for (const OpId op : problem.ops()) {
    for (const TensorId tensor : graph.inputs(op)) parts.join(op.index(), graph.producer(tensor).index());
    for (const OpId earlier : graph.after(op)) parts.join(op.index(), earlier.index());
    parts.join(op.index(), problem.group_ops(problem.group(op)).front().index());
  }
  return parts;
}

}  // namespace

namespace detail {

std::vector<std::int64_t> group_bytes(const Problem& problem) {
  std::vector<std::int64_t> bytes(problem.group_count(), 0);
  for (const OpId op : problem.ops()) {
    std::int64_t& sum = bytes[problem.group(op).index()];
    sum += problem.resident_bytes(op).count;
    // The outputs of an op of zero duration at the end of the step take no memory.
    if (problem.shortest(op) == Nanoseconds{0}) continue;
    for (const TensorId tensor : problem.graph().outputs(op))
      if (problem.graph().kept(tensor)) sum += problem.graph().bytes(tensor).count;
  }
  return bytes;
}

}  // namespace detail

Nanoseconds memory_work_bound(const Problem& problem) {
  PricedWork work(problem, detail::group_bytes(problem));
  return work.worthwhile() ? work.search() : Nanoseconds{0};
}

Nanoseconds forced_transfer_bound(const Problem& problem) {
  std::int64_t largest = 0;
  for (const DeviceId device : problem.devices()) {
    const auto memory = problem.cluster().device(device).memory;
    if (!memory) return Nanoseconds{0};
    largest = std::max(largest, memory->count);
  }
  const std::vector<std::int64_t> bytes = detail::group_bytes(problem);
  if (std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}) <= largest) return Nanoseconds{0};

  DisjointSets parts = connected_parts(problem);
  std::vector<std::int64_t> held(problem.op_count(), 0);
  for (std::size_t g = 0; g < bytes.size(); ++g)
    held[parts.find(problem.group_ops(GroupId{g}).front().index())] += bytes[g];

  const Graph& graph = problem.graph();
  const Chains chains = chains_with_transfers(problem);
  std::vector<std::optional<Nanoseconds>> least(problem.op_count());  // by part
  const auto cross = [&](OpId from, OpId to, Nanoseconds time) {
    if (problem.group(from) == problem.group(to)) return;
    const Nanoseconds sum = chains.head[from] + problem.shortest(from) + time + problem.shortest(to) + chains.tail[to];
    auto& best = least[parts.find(from.index())];
    best = best ? std::min(*best, sum) : sum;
  };
  for (const OpId op : problem.ops()) {
    for (const TensorId tensor : graph.inputs(op)) {
      if (problem.device_count() < 2) break;
      cross(graph.producer(tensor), op, shortest_transfer(problem, tensor));
    }
    for (const OpId earlier : graph.after(op)) cross(earlier, op, Nanoseconds{0});
  }
  Nanoseconds bound{0};
  for (std::size_t part = 0; part < held.size(); ++part)
    if (held[part] > largest && least[part]) bound = std::max(bound, *least[part]);
  return bound;
}

}  // namespace trainyard
