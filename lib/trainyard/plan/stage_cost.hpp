#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

/// What the stages of these layers may compute again, from least to most: nothing alone where no memory is given.
inline std::vector<StageRecompute> recompute_levels(const PlanCosts& costs, const std::vector<LayerCost>& layers) {
  std::vector<StageRecompute> levels{StageRecompute::no};
  if (!costs.memory) return levels;
  if (std::ranges::any_of(layers, [](const LayerCost& layer) { return layer.scores > Bytes{0}; }))
    levels.push_back(StageRecompute::attention);
  levels.push_back(StageRecompute::blocks);
  return levels;
}

/// What a replica of a stage that has `have` of them sends to one that has `take`, or that takes, whichever has fewer:
/// each of the first has so many bytes.
inline Bytes sent_bytes(Bytes bytes, std::size_t have, std::size_t take) {
  return take < have ? Bytes{bytes.count * static_cast<std::int64_t>(have) / static_cast<std::int64_t>(take)} : bytes;
}

/// The state that each of so many replicas holds: its part, rounded, and that of its experts.
inline Bytes shared_state(Bytes state, Bytes of_experts, std::size_t shards) {
  const auto parts = static_cast<std::int64_t>(shards);
  return Bytes{(2 * (state - of_experts).count + parts) / (2 * parts)} + of_experts;
}

/// The layers of a stage together, for one rank and one microbatch: LayerCost added up. `input` is that of the first
/// layer, `output` that of the last, `working` what recomputation needs besides, of the largest layer.
struct StageCost {
  Nanoseconds forward, input_gradient, weight_gradient, accumulation, rank_sums, launches;
  Bytes input, output, held, working, weights, state, expert_weights, expert_state;

  void add(const LayerCost& cost, StageRecompute recompute) {
    forward += cost.forward;
    input_gradient += cost.input_gradient + again_of(cost, recompute);
    weight_gradient += cost.weight_gradient;
    accumulation += cost.accumulation;
    rank_sums += cost.rank_sums;
    launches += cost.launches;
    output = cost.output;
    weights += cost.weights;
    state += cost.state;
    expert_weights += cost.expert_weights;
    expert_state += cost.expert_state;
    held += held_of(cost, recompute);
    if (recompute == StageRecompute::attention) working = std::max(working, cost.scores);
    if (recompute >= StageRecompute::blocks) working = std::max(working, cost.saved);
  }

  /// The cost of these layers and those behind them.
  StageCost followed_by(const StageCost& rest) const {
    return {forward + rest.forward,
            input_gradient + rest.input_gradient,
            weight_gradient + rest.weight_gradient,
            accumulation + rest.accumulation,
            rank_sums + rest.rank_sums,
            launches + rest.launches,
            input,
            rest.output,
            held + rest.held,
            std::max(working, rest.working),
            weights + rest.weights,
            state + rest.state,
            expert_weights + rest.expert_weights,
            expert_state + rest.expert_state};
  }

  /// Time of any microbatch but the first, which adds its gradients to none.
  Nanoseconds backward() const { return input_gradient + weight_gradient + accumulation; }
  Nanoseconds time() const { return forward + backward(); }
  /// What a device holds that has this stage alone, as PlanStep counts it: with so many microbatches in flight, the
  /// optimizer's state shared among `shards`.
  Bytes memory(std::size_t in_flight, std::size_t shards) const {
    return 2 * weights + shared_state(state, expert_state, shards) + static_cast<std::int64_t>(in_flight) * held +
           working;
  }
};

/// StageCost of every run of layers, for one size of microbatch and one tensor degree. O(layers^2) space.
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
        for (std::size_t i = begin; i < layers_; ++i) {
          sum.add(each[i], levels_[level]);
          stages_[(level * layers_ + begin) * layers_ + i] = sum;
        }
      }
  }

  std::size_t layers() const { return layers_; }
  const std::vector<StageRecompute>& levels() const { return levels_; }
  /// Layers `begin` to `end` - 1.
  const StageCost& of(std::size_t begin, std::size_t end, StageRecompute recompute = StageRecompute::no) const {
    const auto level = static_cast<std::size_t>(std::ranges::find(levels_, recompute) - levels_.begin());
    return stages_[(level * layers_ + begin) * layers_ + end - 1];
  }
  StageCost of(std::size_t begin, std::size_t end, const StageRecomputation& recompute) const {
    if (recompute.layers >= end - begin) return of(begin, end, recompute.what);
    const std::size_t rest = begin + recompute.layers;
    return of(begin, rest, recompute.what).followed_by(of(rest, end));
  }

 private:
  std::size_t layers_;
  std::vector<StageRecompute> levels_;
  std::vector<StageCost> stages_;
};

}  // namespace trainyard
