#include "trainyard/plan/planners/galvatron.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

/// Stages of equal layers, time and memory.
std::vector<std::vector<std::size_t>> galvatron_cuts(const PlanCosts& costs, const ParallelPlan& plan, std::size_t row,
                                                     const StageTable& table) {
  const auto larger = [](Nanoseconds a, Nanoseconds b) { return std::max(a, b); };
  const auto time = [&](std::size_t, std::size_t begin, std::size_t end) { return table.of(begin, end).time(); };
  const auto memory = [&](std::size_t s, std::size_t begin, std::size_t end) {
    const Bytes bytes = table.of(begin, end).memory(in_flight(costs, plan, row, s), plan.zero > 0 ? plan.data : 1);
    return Nanoseconds{bytes.count};
  };
  return {equal_cuts(costs, row), best_cuts(costs.layers, row, time, larger)->cuts,
          best_cuts(costs.layers, row, memory, larger)->cuts};
}

Nanoseconds galvatron_step(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table) {
  const std::vector<StageRange> ranges = ranges_of(costs, plan);
  const auto m = static_cast<std::int64_t>(costs.batch / plan.data / plan.microbatch);
  Nanoseconds sum{0}, most{0}, beyond{0};
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    const StageCost& stage = table.of(ranges[s].begin, ranges[s].end, plan.recompute[s]);
    Nanoseconds sent{0};
    if (s > 0) sent += crossing(costs, plan, table, s, ranges[s].begin).backward;
    if (s + 1 < ranges.size()) sent += crossing(costs, plan, table, s + 1, ranges[s].end).forward;
    const Nanoseconds reduce = plan.data > 1 ? costs.all_reduce(plan, s, stage.weights) : Nanoseconds{0};
    sum += stage.time() + sent;
    most = std::max(most, stage.time() + sent);
    beyond = std::max(beyond, stage.forward + sent + std::max(stage.backward(), reduce) - sum);
  }
  return sum + (m - 1) * most + beyond;
}

}  // namespace

PlannerAnswer plan_galvatron(const PlanCosts& costs, const PlannerOptions& options) {
  const std::vector<Mesh> all = whole_meshes(costs, costs.tensor_degrees);
  std::optional<PlannerAnswer> best;
  std::uint64_t evaluations = 0;
  for (const TensorDegree tensor : costs.tensor_degrees)
    for (const std::size_t microbatch : divisors(costs.batch)) {
      std::optional<StageTable> table;
      for (const Mesh& mesh : all) {
        if (mesh.tensor != tensor || costs.batch / mesh.data % microbatch != 0) continue;
        if (best && options.stop && options.stop()) break;
        for (std::size_t zero = 0; zero <= (mesh.data > 1 ? 1 : 0); ++zero) {
          ParallelPlan plan = mesh.plan(microbatch, zero);
          if (options.allowed && !options.allowed(plan)) continue;
          if (!table) table.emplace(costs, microbatch, tensor);
          for (std::vector<std::size_t>& cuts : galvatron_cuts(costs, plan, mesh.row, *table)) {
            plan.cuts = std::move(cuts);
            plan.recompute.clear();
            const std::vector<StageRange> ranges = ranges_of(costs, plan);
            for (std::size_t s = 0; s < ranges.size() && plan.recompute.size() == s; ++s)
              if (const auto level = table->fitting(ranges[s].begin, ranges[s].end, in_flight(costs, plan, mesh.row, s),
                                                    zero > 0 ? mesh.data : 1, costs.memory))
                plan.recompute.push_back(*level);
            if (plan.recompute.size() < ranges.size()) continue;
            ++evaluations;
            keep_better(best, {plan, static_cast<double>(galvatron_step(costs, plan, *table).count)});
          }
        }
      }
    }
  if (!best) refuse_all(costs, "galvatron", all, 1);
  best->evaluations = evaluations;
  return *std::move(best);
}

}  // namespace trainyard
