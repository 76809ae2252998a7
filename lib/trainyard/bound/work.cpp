#include "trainyard/bound/work.hpp"

#include <algorithm>
#include <cstddef>

namespace trainyard::detail {

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

std::int64_t gapped_duration(const Problem& problem, OpId op, const DeviceClass& c) {
  const Nanoseconds duration = problem.duration(op, c.example);
  if (duration == Problem::kNever) return kNeverRuns;
  return duration.count == 0 ? 0 : duration.count + c.gap.count;
}

std::vector<std::int64_t> group_costs(const Problem& problem, const std::vector<DeviceClass>& classes) {
  std::vector<std::int64_t> costs(problem.group_count() * classes.size());
  for (std::size_t g = 0; g < problem.group_count(); ++g)
    for (std::size_t k = 0; k < classes.size(); ++k) {
      std::int64_t& cost = costs[g * classes.size() + k];
      for (const OpId op : problem.group_ops(GroupId{g})) {
        const std::int64_t one = gapped_duration(problem, op, classes[k]);
        cost = one == kNeverRuns || cost == kNeverRuns ? kNeverRuns : cost + one;
      }
    }
  return costs;
}

WeightedWork::WeightedWork(const Problem& problem)
    : classes_(device_classes(problem)), costs_(group_costs(problem, classes_)) {
  if (classes_.size() == 1)
    evaluate({1});
  else if (classes_.size() == 2)
    bisect();
  else
    multiply();
}

Int128 WeightedWork::capacity(const std::vector<std::int64_t>& weights) const {
  Int128 sum = 0;
  for (std::size_t k = 0; k < classes_.size(); ++k) sum += Int128{weights[k]} * classes_[k].devices;
  return sum;
}

Int128 WeightedWork::gaps(const std::vector<std::int64_t>& weights) const {
  Int128 sum = 0;
  for (std::size_t k = 0; k < classes_.size(); ++k)
    sum += Int128{weights[k]} * classes_[k].devices * classes_[k].gap.count;
  return sum;
}

std::vector<Int128> WeightedWork::evaluate(const std::vector<std::int64_t>& weights) {
  std::vector<Int128> loads(classes_.size(), 0);
  Int128 total = 0;
  for (std::size_t at = 0; at < costs_.size(); at += classes_.size()) {
    std::size_t cheapest = classes_.size();
    Int128 least = 0;
    for (std::size_t k = 0; k < classes_.size(); ++k) {
      if (costs_[at + k] == kNeverRuns) continue;
      const Int128 cost = Int128{weights[k]} * costs_[at + k];
      if (cheapest != classes_.size() && cost >= least) continue;
      cheapest = k;
      least = cost;
    }
    total += least;
    loads[cheapest] += costs_[at + cheapest];
  }
  const Int128 capacity_sum = capacity(weights);
  const Int128 work = total - gaps(weights);
  const Nanoseconds bound{work <= 0 ? 0 : static_cast<std::int64_t>((work + capacity_sum - 1) / capacity_sum)};
  if (best_weights_.empty() || bound > best_) {
    best_ = bound;
    best_weights_ = weights;
  }
  return loads;
}

/// The bound is quasi-concave in the ratio of the two weights, so bisection gives more weight to the larger load.
void WeightedWork::bisect() {
  std::int64_t low = 0, high = std::int64_t{1} << 30;
  const std::int64_t sum = high;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto loads = evaluate({middle, sum - middle});
    (loads[0] * classes_[1].devices > loads[1] * classes_[0].devices ? low : high) = middle;
  }
  evaluate({low, sum - low});
}

void WeightedWork::multiply() {
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

}  // namespace trainyard::detail
