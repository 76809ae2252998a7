#include "trainyard/plan/planners/galvatron.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

/// Three choices of cuts, which balance the stages' layers, time, and memory.
std::vector<std::vector<std::size_t>> galvatron_cuts(const PlanCosts& costs, const ParallelPlan& plan,
                                                     const StageTable& table) {
  const auto larger = [](auto a, auto b) { return std::max(a, b); };
  const auto time = [&](std::size_t, std::size_t begin, std::size_t end) {
    return std::optional{table.of(begin, end).time()};
  };
  const auto memory = [&](std::size_t s, std::size_t begin, std::size_t end) {
    return std::optional{memory_of(costs, plan, s, table.of(begin, end))};
  };
  return {equal_cuts(costs, plan.stages()), best_cuts(costs.layers, plan.stages(), time, larger)->cuts,
          best_cuts(costs.layers, plan.stages(), memory, larger)->cuts};
}

Nanoseconds galvatron_step(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table) {
  const std::vector<StageRange> ranges = ranges_of(costs, plan.cuts);
  Nanoseconds sum{0}, most{0}, beyond{0};
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    const StageCost& stage = table.of(ranges[s].begin, ranges[s].end, plan.recompute[s]);
    Nanoseconds sent{0};
    if (s > 0) sent += cut_transfers(costs, plan, table, s, ranges[s].begin).backward;
    if (s + 1 < ranges.size()) sent += cut_transfers(costs, plan, table, s + 1, ranges[s].end).forward;
    const Nanoseconds reduce = plan.data > 1 ? costs.all_reduce(plan, s, stage.weights) : Nanoseconds{0};
    sum += stage.time() + sent;
    most = std::max(most, stage.time() + sent);
    beyond = std::max(beyond, stage.forward + sent + std::max(stage.backward(), reduce) - sum);
  }
  return sum + (microbatches_of(costs, plan) - 1) * most + beyond;
}

}  // namespace

PlannerAnswer plan_galvatron(const PlanCosts& costs, const PlannerOptions& options) {
  const std::vector<Mesh> all = whole_meshes(costs, costs.layer_degrees);
  std::optional<PlannerAnswer> best;
  each_plan(costs, options, all, 0, 1, best, [&](ParallelPlan plan, const StageTable& table) {
    for (std::vector<std::size_t>& cuts : galvatron_cuts(costs, plan, table)) {
      plan.cuts = std::move(cuts);
      if (recompute_least(costs, plan, table))
        keep_better(best, {plan, static_cast<double>(galvatron_step(costs, plan, table).count)});
    }
  });
  if (!best) refuse_all(costs, "galvatron", all, 1);
  return *std::move(best);
}

}  // namespace trainyard
