#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

/// What p stages wait for those before them, at least, one layer of each and all added up.
inline double least_fill(std::vector<double> layers, std::size_t p) {
  std::ranges::sort(layers);
  double sum = 0;
  for (std::size_t s = 0; s + 1 < p; ++s) sum += static_cast<double>(p - 1 - s) * layers[s];
  return sum;
}

/// One device has j + 1 of the p j + 1 longest layers: the shortest of them, for the best j.
inline double least_of_fullest(std::vector<double> layers, std::size_t p) {
  std::ranges::sort(layers, std::ranges::greater{});
  double most = 0;
  for (std::size_t last = 0; last < layers.size(); last += p) {
    double sum = 0;
    for (std::size_t i = 0; i <= last / p; ++i) sum += layers[last - i];
    most = std::max(most, sum);
  }
  return most;
}

/// What several sums of `gradients` take, one after the other: that of one byte and of all else, as no other two do
/// where a sum's time is a concave function of its bytes; rounded, in each step of the two rings.
inline Nanoseconds least_several_sums(const PlanCosts& costs, const ParallelPlan& like, Bytes gradients) {
  const Nanoseconds rounded{2 * static_cast<std::int64_t>(like.replicas())};
  return costs.all_reduce(like, 0, Bytes{1}) + costs.all_reduce(like, 0, gradients - Bytes{1}) - rounded;
}

}  // namespace trainyard
