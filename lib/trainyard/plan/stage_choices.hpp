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

/// Degrees that a stage of its own may have, and what layers cost at these.
struct StageChoice {
  StageDegrees degrees;
  const StageTable* stages;
  std::vector<const StageTable*> from = {};  // by the first device, of these kinds; none where all are equal

  const StageTable& stages_from(std::size_t device) const { return from.empty() ? *stages : *from[device]; }
};

/// The choices of each microbatch of all replicas of a stage. Each table is made once, when first asked for.
class StageChoices {
 public:
  /// Keeps a reference.
  explicit StageChoices(const PlanCosts& costs) : costs_(costs) {}

  /// By tensor degree, then replicas; of up to eight devices, or a power of two of them, fewer than there are.
  std::vector<StageChoice> of(std::size_t microbatch) {
    std::vector<StageChoice> choices;
    for (const LayerDegree tensor : costs_.layer_degrees)
      for (const std::size_t data : divisors(tensor.context * tensor.experts == 1 ? microbatch : 0)) {
        const StageDegrees degrees{data, tensor};
        const std::size_t devices = degrees.devices();
        if (devices >= costs_.devices || (devices > 8 && !std::has_single_bit(devices))) continue;
        const auto table = [&](LayerDegree degree) {
          return &tables_.try_emplace({microbatch / data, degree}, costs_, microbatch / data, degree).first->second;
        };
        choices.push_back({degrees, table(tensor)});
        for (std::size_t first = 0; costs_.kind && first + devices <= costs_.devices; ++first) {
          LayerDegree own = tensor;
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

/// The shortest recomputation with which these layers fit in a stage that holds so many microbatches, of `several` or
/// one, of the whole stage or, `by_layer`, of its first layers; none where they never do.
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

/// Devices times time of a microbatch through the layers before each, nanoseconds, whatever their stages: each layer by
/// the choice with the least.
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

}  // namespace trainyard
