#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

/// Lower bound on the pipeline fill: the time that the devices of p stages wait for the stages before them, summed over
/// devices. Each stage counts as one of the p - 1 shortest `layers`.
inline double least_fill(std::vector<double> layers, std::size_t p) {
  std::ranges::sort(layers);
  double sum = 0;
  for (std::size_t s = 0; s + 1 < p; ++s) sum += static_cast<double>(p - 1 - s) * layers[s];
  return sum;
}

/// Lower bound on the work of the fullest of p devices. By the pigeonhole principle, one device has at least j + 1 of
/// the p j + 1 longest layers: returns the sum of the j + 1 shortest of these, for the best j.
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

/// Activation bytes of a microbatch that recomputation frees, and its time, as a fractional knapsack. Each layer has
/// two entries: its attention scores, and everything else except its input.
class Releases {
 public:
  void add(const LayerCost& layer) {
    add(layer, again_of(layer, StageRecompute::attention), again_of(layer, StageRecompute::blocks));
  }
  /// With other recompute times: of the scores alone, and of the whole layer.
  void add(const LayerCost& layer, Nanoseconds scores_again, Nanoseconds again) {
    const Bytes scores = std::min(layer.scores, std::max(Bytes{0}, layer.saved - layer.input));
    scores_again = std::min(scores_again, again);
    if (scores > Bytes{0}) push(scores_again, scores);
    if (layer.saved - scores > layer.input) push(again - scores_again, layer.saved - scores - layer.input);
  }
  /// Least time that frees `bytes`; nothing if all entries are not enough.
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

/// Time that an all-reduce of `gradients` takes without the additions that run on the device.
inline Nanoseconds sum_on_links(const PlanCosts& costs, const ParallelPlan& like, std::size_t device, Bytes gradients) {
  return costs.all_reduce(like, device, gradients) -
         (costs.additions ? costs.additions(like, device, gradients) : Nanoseconds{0});
}

/// Time of the replicas' exchange after the last task, with several stages: an all-reduce of `gradients`. With ZeRO 2
/// the half that gathers updated weights, since each microbatch has scattered its gradients; with ZeRO 3 none.
inline Nanoseconds sum_behind(const PlanCosts& costs, const ParallelPlan& like, std::size_t device, Bytes gradients) {
  const Nanoseconds sum = like.zero < 3 ? costs.all_reduce(like, device, gradients) : Nanoseconds{0};
  return like.zero == 2 ? Nanoseconds{sum.count / 2} : sum;
}

/// Time to sum the gradients of experts over the replicas that hold the same ones; 0 if no two do.
inline Nanoseconds expert_sum(const PlanCosts& costs, const ParallelPlan& like, std::size_t device, Bytes gradients) {
  return gradients > Bytes{0} && like.experts > 1 && like.data > like.experts
             ? costs.expert_all_reduce(like, device, gradients)
             : Nanoseconds{0};
}
/// sum_behind() of the gradients of experts.
inline Nanoseconds expert_sum_behind(const PlanCosts& costs, const ParallelPlan& like, std::size_t device,
                                     Bytes gradients) {
  const Nanoseconds sum = like.zero < 3 ? expert_sum(costs, like, device, gradients) : Nanoseconds{0};
  return like.zero == 2 ? Nanoseconds{sum.count / 2} : sum;
}

/// Lower bound on the time of all-reducing `gradients` in two or more sums. If a sum's time is concave in its bytes,
/// the least total is that of one byte and all the rest. Less the rounding in each step of both rings.
inline Nanoseconds least_several_sums(const PlanCosts& costs, const ParallelPlan& like, Bytes gradients) {
  const Nanoseconds rounded{2 * static_cast<std::int64_t>(like.replicas())};
  return costs.all_reduce(like, 0, Bytes{1}) + costs.all_reduce(like, 0, gradients - Bytes{1}) - rounded;
}

}  // namespace trainyard
