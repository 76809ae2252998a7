#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/stage_cost.hpp"

namespace trainyard {

/// Degrees that a stage can choose, with the costs of layers at these degrees.
struct StageChoice {
  StageDegrees degrees;
  const StageTable* stages;                  // on the fastest device for each op
  std::vector<const StageTable*> from = {};  // by first device, for the kind of its devices; empty if all are equal

  const StageTable& stages_from(std::size_t device) const { return from.empty() ? *stages : *from[device]; }
};

/// Degrees that a stage can choose, whose replicas divide the microbatch, ordered by tensor degree and then replicas. A
/// stage has up to eight devices or a power of two, and fewer than all.
inline std::vector<StageDegrees> degrees_of_stages(const PlanCosts& costs, std::size_t microbatch) {
  std::vector<StageDegrees> all;
  for (const LayerDegree tensor : costs.layer_degrees)
    for (const std::size_t data : divisors(tensor.context * tensor.experts == 1 ? microbatch : 0)) {
      const StageDegrees degrees{data, tensor};
      const std::size_t devices = degrees.devices();
      if (devices < costs.devices && (devices <= 8 || std::has_single_bit(devices))) all.push_back(degrees);
    }
  return all;
}

/// The choices for each microbatch, which the replicas of a stage divide. Tables are cached.
class StageChoices {
 public:
  /// Keeps a reference to the costs.
  explicit StageChoices(const PlanCosts& costs) : costs_(costs) {}

  /// A choice for each of degrees_of_stages().
  std::vector<StageChoice> of(std::size_t microbatch) {
    std::vector<StageChoice> choices;
    for (const StageDegrees& degrees : degrees_of_stages(costs_, microbatch)) {
      const std::size_t data = degrees.data, devices = degrees.devices();
      const auto table = [&](LayerDegree degree) {
        return &tables_.try_emplace({microbatch / data, degree}, costs_, microbatch / data, degree).first->second;
      };
      choices.push_back({degrees, table(degrees.tensor)});
      for (std::size_t first = 0; costs_.kind && first + devices <= costs_.devices; ++first) {
        LayerDegree own = degrees.tensor;
        own.kind = costs_.kind(first, devices);
        choices.back().from.push_back(table(own));
      }
    }
    return choices;
  }

 private:
  const PlanCosts& costs_;
  std::map<std::pair<std::size_t, LayerDegree>, StageTable> tables_;
};

/// The recomputation with the shortest time at which layers `begin` to `end` - 1 fit in a stage with `in_flight`
/// microbatches; nothing if none fits. `several`: whether the step has more than one microbatch. `by_layer`: a stage
/// may recompute only its first layers.
inline std::optional<StageRecomputation> least_recompute(const PlanCosts& costs, const StageChoice& choice,
                                                         std::size_t begin, std::size_t end, std::size_t in_flight,
                                                         bool several, std::size_t zero, bool by_layer) {
  const Shards shards{zero, choice.degrees.data};
  const auto fits = [&](const StageCost& stage) {
    return !costs.memory || stage.memory(in_flight, shards, several) <= *costs.memory;
  };
  std::optional<StageRecomputation> best;
  Nanoseconds least{0};
  for (const StageRecompute level : choice.stages->levels()) {
    for (std::size_t first = by_layer && level != StageRecompute::no ? 1 : end - begin; first <= end - begin; ++first) {
      const StageRecomputation again{level, first < end - begin ? first : StageRecomputation::kAll};
      const StageCost stage = choice.stages->of(begin, end, again);
      if (best && stage.time() >= least) break;
      if (!fits(stage)) continue;
      best = again;
      least = stage.time();
    }
    if (best && (!by_layer || best->what == StageRecompute::no)) break;
  }
  return best;
}

/// Prefix sums over layers of devices times nanoseconds per microbatch; each layer takes the choice with the least.
/// Element i is for the layers before i.
inline std::vector<double> least_work(const PlanCosts& costs, const std::vector<StageChoice>& choices,
                                      StageRecompute recompute) {
  std::vector<double> work{0};
  for (std::size_t i = 0; i < costs.layers; ++i) {
    double least = std::numeric_limits<double>::infinity();
    for (const StageChoice& choice : choices)
      least = std::min(least, static_cast<double>(choice.stages->of(i, i + 1, recompute).time().count) *
                                  static_cast<double>(choice.degrees.devices()));
    work.push_back(work.back() + least);
  }
  return work;
}

/// Appends the partial plans of `next`, which it empties, to `known`. Adds the indices of complete plans, which begin
/// with the first layer, to `whole`.
template <class Partial>
void collect(std::vector<std::vector<Partial>>& next, std::vector<Partial>& known, std::vector<std::size_t>& whole) {
  for (std::vector<Partial>& plans : next) {
    for (const Partial& each : plans) {
      if (each.begin == 0) whole.push_back(known.size());
      known.push_back(each);
    }
    plans.clear();
  }
}

}  // namespace trainyard
