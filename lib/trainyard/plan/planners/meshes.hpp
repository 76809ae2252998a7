#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/planners/planner.hpp"
#include "trainyard/plan/stage_cost.hpp"

namespace trainyard {

/// Equal degrees of a plan: d replicas, t ranks, and p pipeline devices in the row.
struct Mesh {
  std::size_t data;
  LayerDegree tensor;
  std::size_t row;

  std::size_t devices() const { return data * tensor.ranks * row; }
  /// A plan with these degrees, whose cuts the caller sets. With one replica, the ZeRO stage is 0.
  ParallelPlan plan(std::size_t microbatch, std::size_t zero = 0) const {
    return {.data = data,
            .tensor = tensor.ranks,
            .sequence = tensor.sequence,
            .cuts = std::vector<std::size_t>(row - 1),
            .microbatch = microbatch,
            .zero = data > 1 ? zero : 0};
  }
};

/// Tensor degrees without sequence parallelism.
std::vector<LayerDegree> ranks_alone(const PlanCosts& costs);

/// All meshes of these tensor degrees that the devices are enough for, ordered by tensor degree and then row. d divides
/// the batch.
std::vector<Mesh> meshes(const PlanCosts& costs, const std::vector<LayerDegree>& degrees);
/// The meshes that use the most devices.
std::vector<Mesh> whole_meshes(const PlanCosts& costs, const std::vector<LayerDegree>& degrees);

/// Cuts into stages of equal numbers of layers. Divides the longest run of equal layers if `stages` divides it; layers
/// before or after the run, such as an embedding, join the first or last stage. Otherwise divides the whole chain.
std::vector<std::size_t> equal_cuts(const PlanCosts& costs, std::size_t stages);
/// Length of the longest run of equal layers.
std::size_t equal_layers(const PlanCosts& costs);

/// Cuts of a chain into stages, and the joined cost of the stages.
template <class Quantity>
struct ChosenCuts {
  std::vector<std::size_t> cuts;
  Quantity value;
};
/// Cuts that minimize the joined cost of their stages, by dynamic programming in O(stages layers^2). cost(stage, begin,
/// end) returns an optional, empty if these layers cannot be that stage. join(cost so far, cost of the stage) is
/// monotone in both. Of equal cuts, returns the first found; nothing if no cuts are possible.
template <class Cost, class Join>
auto best_cuts(std::size_t layers, std::size_t stages, const Cost& cost, const Join& join) {
  using Quantity = typename std::invoke_result_t<Cost, std::size_t, std::size_t, std::size_t>::value_type;
  std::vector<std::vector<std::optional<Quantity>>> best(stages + 1, std::vector<std::optional<Quantity>>(layers + 1));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = Quantity{};
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t last = layers - (stages - s - 1);
    for (std::size_t begin = s; begin < last; ++begin) {
      if (!best[s][begin]) continue;
      for (std::size_t end = s + 1 == stages ? layers : begin + 1; end <= last; ++end) {
        const std::optional<Quantity> own = cost(s, begin, end);
        if (!own) continue;
        const Quantity whole = join(*best[s][begin], *own);
        if (best[s + 1][end] && whole >= *best[s + 1][end]) continue;
        best[s + 1][end] = whole;
        from[s + 1][end] = begin;
      }
    }
  }
  std::optional<ChosenCuts<Quantity>> chosen;
  if (!best[stages][layers]) return chosen;
  chosen.emplace(ChosenCuts<Quantity>{std::vector<std::size_t>(stages - 1), *best[stages][layers]});
  for (std::size_t s = stages, end = layers; s > 1; --s) chosen->cuts[s - 2] = end = from[s][end];
  return chosen;
}

/// The layers `begin` to `end` - 1.
struct StageRange {
  std::size_t begin, end;
};
/// The layers of each stage.
std::vector<StageRange> ranges_of(const PlanCosts& costs, const std::vector<std::size_t>& cuts);

/// Microbatches per replica and step.
std::int64_t microbatches_of(const PlanCosts& costs, const ParallelPlan& plan);
/// Peak memory with 1F1B of a device with this stage, whose cost is given.
Bytes memory_of(const PlanCosts& costs, const ParallelPlan& plan, std::size_t stage, const StageCost& cost);
bool fits(const PlanCosts& costs, const ParallelPlan& plan, std::size_t stage, const StageCost& cost);
/// The lowest level of recomputation at which these layers fit as a stage; nothing if none does.
std::optional<StageRecompute> least_recompute(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table,
                                              std::size_t stage, StageRange layers);
/// Sets each stage of the plan to the lowest level of recomputation at which it fits. False if a stage never fits.
bool recompute_least(const PlanCosts& costs, ParallelPlan& plan, const StageTable& table);

/// Transfer times of a microbatch over the cut before layer `at`: forward from stage s - 1 to s, and back.
struct CutTransfers {
  Nanoseconds forward, backward;
};
CutTransfers cut_transfers(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& before,
                           const StageTable& after, std::size_t stage, std::size_t at);
inline CutTransfers cut_transfers(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table,
                                  std::size_t stage, std::size_t at) {
  return cut_transfers(costs, plan, table, table, stage, at);
}

/// Replaces `best` if `answer` has a smaller objective.
void keep_better(std::optional<PlannerAnswer>& best, PlannerAnswer answer);

/// Calls visit(plan, table) for each allowed plan of these meshes, every microbatch size, and ZeRO stages from
/// `least_zero` to `most_zero` (0 without replicas). Once `best` has a plan, ends early if the caller asks to stop.
template <class Visit>
void each_plan(const PlanCosts& costs, const PlannerOptions& options, const std::vector<Mesh>& meshes,
               std::size_t least_zero, std::size_t most_zero, const std::optional<PlannerAnswer>& best,
               const Visit& visit) {
  for (const LayerDegree tensor : costs.layer_degrees)
    for (const std::size_t microbatch : divisors(costs.batch)) {
      std::optional<StageTable> table;
      for (const Mesh& mesh : meshes) {
        if (mesh.tensor != tensor || costs.batch / mesh.data % microbatch != 0) continue;
        if (best && options.stop && options.stop()) return;
        for (std::size_t zero = mesh.data > 1 ? least_zero : 0; zero <= (mesh.data > 1 ? most_zero : 0); ++zero) {
          ParallelPlan plan = mesh.plan(microbatch, zero);
          if (options.allowed && !options.allowed(plan)) continue;
          if (!table) table.emplace(costs, microbatch, tensor);
          visit(std::move(plan), *table);
        }
      }
    }
}

/// Throws InputError ("plan"): no plan of the planner fits. Names the nearest plan among all meshes, with equal cuts,
/// microbatches of one sample and the highest level of recomputation.
[[noreturn]] void refuse_all(const PlanCosts& costs, const char* planner, const std::vector<Mesh>& meshes,
                             std::size_t zero);

}  // namespace trainyard
