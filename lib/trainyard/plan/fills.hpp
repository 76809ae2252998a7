#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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

/// What recomputation lets go of a microbatch's bytes, and the time that it takes: of layers their scores, and the
/// rest. What is let go in part is so at the better rate of the two.
class Releases {
 public:
  void add(const LayerCost& layer) {
    add(layer, again_of(layer, StageRecompute::attention), again_of(layer, StageRecompute::blocks));
  }
  /// With times of its own.
  void add(const LayerCost& layer, Nanoseconds scores_again, Nanoseconds again) {
    const Bytes scores = std::min(layer.scores, std::max(Bytes{0}, layer.saved - layer.input));
    scores_again = std::min(scores_again, again);
    if (scores > Bytes{0}) push(scores_again, scores);
    if (layer.saved - scores > layer.input) push(again - scores_again, layer.saved - scores - layer.input);
  }
  /// The least time, of layers of any part of their bytes; none: all of it is not enough.
  std::optional<double> least(double bytes) {
    std::ranges::sort(each_, {}, [](const Release& release) { return release.time / release.bytes; });
    double time = 0;
    for (const Release& release : each_) {
      if (bytes <= 0) break;
      time += release.time * std::min(1.0, bytes / release.bytes);
      bytes -= release.bytes;
    }
    return bytes > 0 ? std::nullopt : std::optional{time};
  }

 private:
  struct Release {
    double time, bytes;
  };
  void push(Nanoseconds time, Bytes bytes) {
    each_.push_back({static_cast<double>(time.count), static_cast<double>(bytes.count)});
  }
  std::vector<Release> each_;
};

/// A sum of gradients without the additions that the device makes itself.
inline Nanoseconds sum_on_links(const PlanCosts& costs, const ParallelPlan& like, std::size_t device, Bytes gradients) {
  return costs.all_reduce(like, device, gradients) -
         (costs.additions ? costs.additions(like, device, gradients) : Nanoseconds{0});
}

/// What replicas of several stages exchange behind their tasks, in no more than so long a sum: with ZeRO 2 updated
/// weights alone, as each microbatch has scattered its gradients; with ZeRO 3 nothing.
inline Nanoseconds sum_behind(const PlanCosts& costs, const ParallelPlan& like, std::size_t device, Bytes gradients) {
  const Nanoseconds sum = like.zero < 3 ? costs.all_reduce(like, device, gradients) : Nanoseconds{0};
  return like.zero == 2 ? Nanoseconds{sum.count / 2} : sum;
}

/// What several sums of `gradients` take, one after the other: that of one byte and of all else, as no other two do
/// where a sum's time is a concave function of its bytes; rounded, in each step of the two rings.
inline Nanoseconds least_several_sums(const PlanCosts& costs, const ParallelPlan& like, Bytes gradients) {
  const Nanoseconds rounded{2 * static_cast<std::int64_t>(like.replicas())};
  return costs.all_reduce(like, 0, Bytes{1}) + costs.all_reduce(like, 0, gradients - Bytes{1}) - rounded;
}

}  // namespace trainyard
