#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

/// Recomputation levels that stages of these layers can choose from, least first. Without a memory limit, only `no`.
inline std::vector<StageRecompute> recompute_levels(const PlanCosts& costs, const std::vector<LayerCost>& layers) {
  std::vector<StageRecompute> levels{StageRecompute::no};
  if (!costs.memory) return levels;
  if (std::ranges::any_of(layers, [](const LayerCost& layer) { return layer.scores > Bytes{0}; }))
    levels.push_back(StageRecompute::attention);
  levels.push_back(StageRecompute::blocks);
  return levels;
}

/// Bytes per replica that are sent from a stage of `have` replicas, each with `bytes`, to one of `take` replicas. The
/// result is per replica of the stage with fewer replicas.
inline Bytes sent_bytes(Bytes bytes, std::size_t have, std::size_t take) {
  return take < have ? Bytes{bytes.count * static_cast<std::int64_t>(have) / static_cast<std::int64_t>(take)} : bytes;
}

/// Optimizer state that a replica holds: its rounded shares of the dense state and of its experts' state.
inline Bytes shared_state(Bytes state, Bytes of_experts, const Shards& shards) {
  const auto share = [](Bytes whole, std::size_t replicas) {
    const auto parts = static_cast<std::int64_t>(replicas);
    return Bytes{(2 * whole.count + parts) / (2 * parts)};
  };
  return share(state - of_experts, shards.state) + share(of_experts, shards.expert_state);
}

/// Peak memory of a backward task, beyond the activations of all microbatches in flight at its start. When the task
/// reaches layer l, the layers behind l have freed their activations (if LayerCost::backward_memory is known). The
/// recomputed activations of l and its working set are held, and
///
///     first    the weight gradients of l and of the layers behind it
///     later    l's largest gradient and its sum with those of earlier microbatches, which are counted separately
///     passing  no weight gradients
///     only     those of `first`, for the only microbatch; the kept activations of l are freed as they are read
struct BackwardPeak {
  Bytes first{0}, later{0}, passing{0}, only{0};

  /// Peak of these layers and the layers `rest` behind them. The latter, whose weights are `weights`, run first and
  /// free `freed` bytes of a microbatch.
  BackwardPeak followed_by(const BackwardPeak& rest, Bytes freed, Bytes weights) const {
    return {std::max(first - freed + weights, rest.first), std::max(later - freed, rest.later),
            std::max(passing - freed, rest.passing), std::max(only - freed + weights, rest.only)};
  }
};

/// Cost of a stage on one rank, for one microbatch: the sum of its layers' LayerCost. `input` is that of the first
/// layer, `output` that of the last. `backward_memory` is known for all layers or for none.
struct StageCost {
  Nanoseconds forward, input_gradient, weight_gradient, accumulation, expert_accumulation, rank_sums, launches,
      exchanged;
  Bytes input, output, held, weights, state, expert_weights, expert_state;
  BackwardPeak peak;
  std::optional<BackwardMemory> backward_memory;  // `working` is in `peak`
  Bytes copied_weights{0}, copied_state{0};       // copies of weights tied to a layer before the stage

  void add(const LayerCost& cost, StageRecompute recompute) {
    forward += cost.forward;
    input_gradient += cost.input_gradient + again_of(cost, recompute);
    weight_gradient += cost.weight_gradient;
    accumulation += cost.accumulation;
    expert_accumulation += cost.expert_accumulation;
    rank_sums += cost.rank_sums;
    launches += cost.launches;
    exchanged += cost.exchanged;
    output = cost.output;
    weights += cost.weights;
    state += cost.state;
    expert_weights += cost.expert_weights;
    expert_state += cost.expert_state;
    const Bytes kept = held_of(cost, recompute);
    held += kept;
    Bytes own = recompute >= StageRecompute::blocks      ? cost.saved
                : recompute == StageRecompute::attention ? cost.scores
                                                         : Bytes{0};
    if (!cost.backward_memory) {
      peak = peak.followed_by({own + cost.weights, own, own, own + cost.weights}, Bytes{0}, cost.weights);
      return;
    }
    const Bytes only =
        recompute == StageRecompute::attention ? cost.backward_memory->with_scores : own + cost.backward_memory->net;
    own += cost.backward_memory->working;
    peak = peak.followed_by(
        {own + cost.weights, own + 2 * cost.backward_memory->largest_gradient, own, only + cost.weights}, kept,
        cost.weights);
    add(*cost.backward_memory);
  }

  /// The cost of these layers followed by `rest`.
  StageCost followed_by(const StageCost& rest) const {
    StageCost both{forward + rest.forward,
                   input_gradient + rest.input_gradient,
                   weight_gradient + rest.weight_gradient,
                   accumulation + rest.accumulation,
                   expert_accumulation + rest.expert_accumulation,
                   rank_sums + rest.rank_sums,
                   launches + rest.launches,
                   exchanged + rest.exchanged,
                   input,
                   rest.output,
                   held + rest.held,
                   weights + rest.weights,
                   state + rest.state,
                   expert_weights + rest.expert_weights,
                   expert_state + rest.expert_state,
                   peak.followed_by(rest.peak, backward_memory ? rest.held : Bytes{0}, rest.weights),
                   backward_memory};
    if (rest.backward_memory) both.add(*rest.backward_memory);
    return both;
  }

  /// Time for any microbatch except the first, which has no earlier gradients to add to.
  Nanoseconds backward() const { return input_gradient + weight_gradient + accumulation; }
  Nanoseconds time() const { return forward + backward(); }
  /// Peak memory of a device with this stage alone, as in PlanStep but without buckets in transit. `in_flight`:
  /// microbatches in flight at most. `several`: whether the step has more than one microbatch.
  Bytes memory(std::size_t in_flight, const Shards& shards, bool several) const {
    const Bytes gradients = shards.gradients > 1 ? share(shards.gradients, shards.expert_gradients) + peak.passing
                            : several || !backward_memory ? weights + peak.later
                                                          : peak.only;
    return share(shards.weights, shards.expert_weights) + gradients + 2 * copied_weights +
           shared_state(state + copied_state, expert_state, shards) + static_cast<std::int64_t>(in_flight) * held;
  }

 private:
  /// A replica's share of the dense weights, which `replicas` divide, and of its experts, which `of_experts` divide.
  Bytes share(std::size_t replicas, std::size_t of_experts) const {
    return Bytes{(weights - expert_weights).count / static_cast<std::int64_t>(replicas) +
                 expert_weights.count / static_cast<std::int64_t>(of_experts)};
  }
  void add(const BackwardMemory& layer) {
    if (!backward_memory) backward_memory = BackwardMemory{};
    backward_memory->largest_gradient = std::max(backward_memory->largest_gradient, layer.largest_gradient);
    backward_memory->for_weights += layer.for_weights;
  }
};

/// StageCost of every range of consecutive layers, for one microbatch size and one degree, with copies of weights tied
/// to layers before the range. O(layers^2) space.
class StageTable {
 public:
  StageTable(const PlanCosts& costs, std::size_t microbatch, LayerDegree tensor) : layers_(costs.layers) {
    std::vector<LayerCost> each;
    for (std::size_t i = 0; i < layers_; ++i) each.push_back(costs.layer(i, microbatch, tensor));
    levels_ = recompute_levels(costs, each);
    stages_.resize(levels_.size() * layers_ * layers_);
    for (std::size_t level = 0; level < levels_.size(); ++level)
      for (std::size_t begin = 0; begin < layers_; ++begin) {
        StageCost sum{};
        sum.input = each[begin].input;
        Bytes copied{0};
        for (std::size_t i = begin; i < layers_; ++i) {
          sum.add(each[i], levels_[level]);
          if (each[i].tied_weights > copied && each[i].tied_to < begin) {
            sum.copied_weights = copied = each[i].tied_weights;
            sum.copied_state = each[i].tied_state;
          }
          stages_[(level * layers_ + begin) * layers_ + i] = sum;
        }
      }
  }

  std::size_t layers() const { return layers_; }
  const std::vector<StageRecompute>& levels() const { return levels_; }
  /// The cost of layers `begin` to `end` - 1.
  const StageCost& of(std::size_t begin, std::size_t end, StageRecompute recompute = StageRecompute::no) const {
    const auto level = static_cast<std::size_t>(std::ranges::find(levels_, recompute) - levels_.begin());
    return stages_[(level * layers_ + begin) * layers_ + end - 1];
  }
  StageCost of(std::size_t begin, std::size_t end, const StageRecomputation& recompute) const {
    if (recompute.layers >= end - begin) return of(begin, end, recompute.what);
    const std::size_t rest = begin + recompute.layers;
    StageCost both = of(begin, rest, recompute.what).followed_by(of(rest, end));
    both.copied_weights = of(begin, end).copied_weights;
    both.copied_state = of(begin, end).copied_state;
    return both;
  }

 private:
  std::size_t layers_;
  std::vector<StageRecompute> levels_;
  std::vector<StageCost> stages_;
};

}  // namespace trainyard
