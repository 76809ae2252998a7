#include "trainyard/plan/planners/megatron.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/plan/planners/meshes.hpp"

namespace trainyard {
namespace {

/// Tensor degrees, with sequence parallelism if it is available.
std::vector<LayerDegree> megatron_degrees(const PlanCosts& costs) {
  std::vector<LayerDegree> degrees = ranks_alone(costs);
  for (LayerDegree& degree : degrees)
    if (std::ranges::find(costs.layer_degrees, LayerDegree{degree.ranks, true}) != costs.layer_degrees.end())
      degree.sequence = true;
  std::ranges::sort(degrees);
  return degrees;
}

/// Chunks per device: as many as the equal layers allow, or 1 if p does not divide microbatches or layers.
std::size_t chunks_for(const PlanCosts& costs, const Mesh& mesh, std::size_t microbatches) {
  const std::size_t layers = equal_layers(costs);
  if (mesh.row == 1 || microbatches % mesh.row != 0 || layers % mesh.row != 0) return 1;
  return layers / mesh.row;
}

/// Forward and backward time of a microbatch on the slowest device.
Nanoseconds slowest_passes(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table) {
  const std::vector<StageRange> ranges = ranges_of(costs, plan.cuts);
  std::vector<Nanoseconds> devices(plan.devices_in_row(), Nanoseconds{0});
  for (std::size_t s = 0; s < ranges.size(); ++s)
    devices[s % devices.size()] += table.of(ranges[s].begin, ranges[s].end, plan.recompute[s]).time();
  return *std::ranges::max_element(devices);
}

/// The plan with the microbatch size that minimizes Megatron's formula among those that fit; nothing if none fits.
std::optional<PlannerAnswer> best_microbatch(const PlanCosts& costs, const Mesh& mesh, const PlannerOptions& options) {
  std::optional<PlannerAnswer> best;
  for (const std::size_t microbatch : {1u, 2u, 4u, 8u}) {
    if (costs.batch / mesh.data % microbatch != 0) continue;
    const std::size_t m = costs.batch / mesh.data / microbatch;
    ParallelPlan plan = mesh.plan(microbatch, 1);
    plan.chunks = chunks_for(costs, mesh, m);
    if (plan.chunks > 1) plan.schedule = PipelineSchedule::interleaved;
    plan.cuts = equal_cuts(costs, mesh.row * plan.chunks);
    if (options.allowed && !options.allowed(plan)) continue;
    const StageTable table{costs, microbatch, mesh.tensor};
    for (const StageRecompute level : table.levels()) {
      plan.recompute.assign(plan.stages(), level);
      if (run_plan(costs, plan).excess(costs.memory) > Bytes{0}) continue;
      const double bubble = static_cast<double>(mesh.row - 1) / static_cast<double>(plan.chunks);
      keep_better(best, {plan, (static_cast<double>(m) + bubble) *
                                   static_cast<double>(slowest_passes(costs, plan, table).count)});
      break;
    }
  }
  return best;
}

}  // namespace

PlannerAnswer plan_megatron(const PlanCosts& costs, const PlannerOptions& options) {
  std::vector<Mesh> all = whole_meshes(costs, megatron_degrees(costs));
  // Tensor ranks come first. Several stages only with the most ranks.
  std::size_t most = 1;
  for (const Mesh& mesh : all) most = std::max(most, mesh.tensor.ranks);
  std::erase_if(all, [&](const Mesh& mesh) { return mesh.row > 1 && mesh.tensor.ranks < most; });
  sort_by(all, [](const Mesh& mesh) { return mesh.tensor.ranks * mesh.row; });
  for (const Mesh& mesh : all)
    if (auto best = best_microbatch(costs, mesh, options)) return *std::move(best);
  refuse_all(costs, "megatron", all, 1);
}

}  // namespace trainyard
