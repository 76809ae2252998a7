#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trainyard/plan/planners/planner.hpp"
#include "trainyard/plan/stage_cost.hpp"

namespace trainyard {

/// Degrees of a plan: d replicas of t ranks of p stages.
struct Mesh {
  std::size_t data;
  TensorDegree tensor;
  std::size_t row;

  std::size_t devices() const { return data * tensor.ranks * row; }
  /// Its cuts are to be set.
  ParallelPlan plan(std::size_t microbatch, std::size_t zero = 0) const {
    return {.data = data,
            .tensor = tensor.ranks,
            .sequence = tensor.sequence,
            .cuts = std::vector<std::size_t>(row - 1),
            .microbatch = microbatch,
            .zero = zero};
  }
};

/// Tensor degrees without sequence parallelism.
std::vector<TensorDegree> ranks_alone(const PlanCosts& costs);

/// All meshes of these tensor degrees, by tensor degree, then row; d divides the batch.
std::vector<Mesh> meshes(const PlanCosts& costs, const std::vector<TensorDegree>& degrees);
/// Those of them that use as many devices as any.
std::vector<Mesh> whole_meshes(const PlanCosts& costs, const std::vector<TensorDegree>& degrees);

/// Cuts into stages of as many layers each: the longest run of equal layers is divided, where it can be, and what
/// stands before it or behind it, such as an embedding, goes with the first or the last stage.
std::vector<std::size_t> equal_cuts(const PlanCosts& costs, std::size_t stages);
/// Layers of that run.
std::size_t equal_layers(const PlanCosts& costs);

/// Cuts of `layers` into stages, and what their costs join to.
struct ChosenCuts {
  std::vector<std::size_t> cuts;
  Nanoseconds value;
};
/// Those of the least join of cost(stage, begin, end), kLongestTime where a stage cannot be: join(sum so far, cost)
/// ascends in both. The first by dynamic programming, O(stages layers^2); none where no cuts can be.
template <class Cost, class Join>
std::optional<ChosenCuts> best_cuts(std::size_t layers, std::size_t stages, const Cost& cost, const Join& join) {
  std::vector<std::vector<Nanoseconds>> best(stages + 1, std::vector<Nanoseconds>(layers + 1, kLongestTime));
  std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = Nanoseconds{0};
  for (std::size_t s = 0; s < stages; ++s)
    for (std::size_t begin = s; begin < layers; ++begin) {
      if (best[s][begin] == kLongestTime) continue;
      const std::size_t last = layers - (stages - s - 1);
      for (std::size_t end = s + 1 == stages ? layers : begin + 1; end <= last; ++end) {
        const Nanoseconds own = cost(s, begin, end);
        if (own == kLongestTime) continue;
        const Nanoseconds whole = join(best[s][begin], own);
        if (whole >= best[s + 1][end]) continue;
        best[s + 1][end] = whole;
        from[s + 1][end] = begin;
      }
    }
  if (best[stages][layers] == kLongestTime) return std::nullopt;
  ChosenCuts chosen{std::vector<std::size_t>(stages - 1), best[stages][layers]};
  for (std::size_t s = stages, end = layers; s > 1; --s) chosen.cuts[s - 2] = end = from[s][end];
  return chosen;
}

/// The stages of a plan, one a device, from its cuts.
struct StageRange {
  std::size_t begin, end;
};
std::vector<StageRange> ranges_of(const PlanCosts& costs, const ParallelPlan& plan);

/// Microbatches in flight on a stage of 1F1B.
std::size_t in_flight(const PlanCosts& costs, const ParallelPlan& plan, std::size_t row, std::size_t stage);

/// Sent over the cut before layer `at` for a microbatch: forward from stage s - 1 to s, and back.
struct Crossing {
  Nanoseconds forward, backward;
};
Crossing crossing(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table, std::size_t stage,
                  std::size_t at);

/// The better of two answers: the least objective, the first of equals.
void keep_better(std::optional<PlannerAnswer>& best, PlannerAnswer answer);

/// That nothing of the planner's fits: names the plan that is the nearest, of all meshes in equal cuts with all
/// recomputation that it may have.
[[noreturn]] void refuse_all(const PlanCosts& costs, const char* planner, const std::vector<Mesh>& meshes,
                             std::size_t zero);

}  // namespace trainyard
