#include "trainyard/plan/planners/piper.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

struct PiperCandidate {
  Mesh mesh;
  std::size_t microbatch;
  double least;  // no cuts have less time per sample
};

std::optional<ChosenCuts<Nanoseconds>> piper_cuts(const PlanCosts& costs, const ParallelPlan& plan,
                                                  const StageTable& table) {
  std::vector<Nanoseconds> sent;  // over the cut before each layer, by the stage after it
  for (std::size_t s = 1; s < plan.stages(); ++s)
    for (std::size_t at = 0; at < costs.layers; ++at) {
      const Crossing both = at > 0 ? crossing(costs, plan, table, s, at) : Crossing{};
      sent.push_back(both.forward + both.backward);
    }
  const auto load = [&](std::size_t s, std::size_t begin, std::size_t end) -> std::optional<Nanoseconds> {
    const auto level = least_recompute(costs, plan, table, s, {begin, end});
    if (!level) return std::nullopt;
    const StageCost& stage = table.of(begin, end, *level);
    Nanoseconds time = stage.time();
    if (s > 0) time += sent[(s - 1) * costs.layers + begin];
    if (s + 1 < plan.stages()) time += sent[s * costs.layers + end];
    if (plan.data > 1)
      time += Nanoseconds{2 * costs.all_reduce(plan, s, stage.weights).count / microbatches_of(costs, plan)};
    return time;
  };
  return best_cuts(costs.layers, plan.stages(), load, [](Nanoseconds a, Nanoseconds b) { return std::max(a, b); });
}

}  // namespace

PlannerAnswer plan_piper(const PlanCosts& costs, const PlannerOptions& options) {
  std::vector<Mesh> all = meshes(costs, costs.tensor_degrees);
  std::erase_if(all, [&](const Mesh& mesh) { return mesh.row * mesh.data > costs.batch; });
  std::map<std::pair<std::size_t, TensorDegree>, Nanoseconds> whole;  // of a microbatch through all layers
  std::vector<PiperCandidate> candidates;
  for (const Mesh& mesh : all)
    for (const std::size_t microbatch : divisors(costs.batch / mesh.data)) {
      if (mesh.row * mesh.data > costs.batch / microbatch) continue;
      ParallelPlan plan = mesh.plan(microbatch);
      if (options.allowed && !options.allowed(plan)) continue;
      const auto [at, added] = whole.try_emplace({microbatch, mesh.tensor}, Nanoseconds{0});
      for (std::size_t i = 0; added && i < costs.layers; ++i) {
        const LayerCost layer = costs.layer(i, microbatch, mesh.tensor);
        at->second += layer.forward + layer.input_gradient + layer.weight_gradient + layer.accumulation;
      }
      candidates.push_back(
          {mesh, microbatch,
           static_cast<double>(at->second.count) / static_cast<double>(mesh.row * mesh.data * microbatch)});
    }
  std::ranges::stable_sort(candidates, {}, &PiperCandidate::least);
  std::optional<PlannerAnswer> best;
  std::map<std::pair<std::size_t, TensorDegree>, StageTable> tables;
  for (const PiperCandidate& candidate : candidates) {
    const Mesh& mesh = candidate.mesh;
    if (best && (candidate.least >= best->objective || (options.stop && options.stop()))) break;
    ParallelPlan plan = mesh.plan(candidate.microbatch);
    const StageTable& table =
        tables.try_emplace({candidate.microbatch, mesh.tensor}, costs, candidate.microbatch, mesh.tensor).first->second;
    const auto chosen = piper_cuts(costs, plan, table);
    if (!chosen) continue;
    plan.cuts = chosen->cuts;
    recompute_least(costs, plan, table);
    keep_better(
        best, {plan, static_cast<double>(chosen->value.count) / static_cast<double>(mesh.data * candidate.microbatch)});
  }
  if (!best) refuse_all(costs, "piper", all, 0);
  return *std::move(best);
}

}  // namespace trainyard
