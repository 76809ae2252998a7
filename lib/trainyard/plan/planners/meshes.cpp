#include "trainyard/plan/planners/meshes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard {
namespace {

/// The longest run of layers of equal time and weights.
StageRange equal_run(const PlanCosts& costs) {
  const auto like = [&](std::size_t layer) {
    const LayerCost cost = costs.layer(layer, 1, {1});
    return std::pair{cost.forward, cost.weights};
  };
  StageRange best{0, 0};
  for (std::size_t begin = 0, end = 0; begin < costs.layers; begin = end) {
    const auto first = like(begin);
    for (end = begin + 1; end < costs.layers && like(end) == first;) ++end;
    if (end - begin > best.end - best.begin) best = {begin, end};
  }
  return best;
}

}  // namespace

std::vector<LayerDegree> ranks_alone(const PlanCosts& costs) {
  std::vector<LayerDegree> degrees = costs.layer_degrees;
  std::erase_if(degrees, [](const LayerDegree& degree) { return degree.sequence; });
  return degrees;
}

std::vector<Mesh> meshes(const PlanCosts& costs, const std::vector<LayerDegree>& degrees) {
  const std::vector<std::size_t> replicas = divisors(costs.batch);
  std::vector<Mesh> list;
  for (const LayerDegree tensor : degrees)
    for (std::size_t row = 1; row <= costs.layers && tensor.ranks * row <= costs.devices; ++row)
      for (const std::size_t data : replicas)
        if (const Mesh mesh{data, tensor, row}; mesh.devices() <= costs.devices) list.push_back(mesh);
  return list;
}

std::vector<Mesh> whole_meshes(const PlanCosts& costs, const std::vector<LayerDegree>& degrees) {
  std::vector<Mesh> list = meshes(costs, degrees);
  std::size_t most = 0;
  for (const Mesh& mesh : list) most = std::max(most, mesh.devices());
  std::erase_if(list, [&](const Mesh& mesh) { return mesh.devices() < most; });
  return list;
}

std::size_t equal_layers(const PlanCosts& costs) {
  const StageRange run = equal_run(costs);
  return run.end - run.begin;
}

std::vector<std::size_t> equal_cuts(const PlanCosts& costs, std::size_t stages) {
  StageRange run = equal_run(costs);
  if ((run.end - run.begin) % stages != 0) run = {0, costs.layers};
  std::vector<std::size_t> cuts;
  for (std::size_t s = 1; s < stages; ++s) cuts.push_back(run.begin + s * (run.end - run.begin) / stages);
  return cuts;
}

std::vector<StageRange> ranges_of(const PlanCosts& costs, const std::vector<std::size_t>& cuts) {
  std::vector<StageRange> ranges;
  for (std::size_t s = 0; s <= cuts.size(); ++s)
    ranges.push_back({s > 0 ? cuts[s - 1] : 0, s < cuts.size() ? cuts[s] : costs.layers});
  return ranges;
}

std::int64_t microbatches_of(const PlanCosts& costs, const ParallelPlan& plan) {
  return static_cast<std::int64_t>(costs.batch / plan.data / plan.microbatch);
}

Bytes memory_of(const PlanCosts& costs, const ParallelPlan& plan, std::size_t stage, const StageCost& cost) {
  const std::size_t microbatches = costs.batch / plan.data / plan.microbatch;
  return cost.memory(std::min(microbatches, plan.stages() - stage), plan.shards(stage), microbatches > 1);
}

bool fits(const PlanCosts& costs, const ParallelPlan& plan, std::size_t stage, const StageCost& cost) {
  return !costs.memory || memory_of(costs, plan, stage, cost) <= *costs.memory;
}

std::optional<StageRecompute> least_recompute(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& table,
                                              std::size_t stage, StageRange layers) {
  for (const StageRecompute level : table.levels())
    if (fits(costs, plan, stage, table.of(layers.begin, layers.end, level))) return level;
  return std::nullopt;
}

bool recompute_least(const PlanCosts& costs, ParallelPlan& plan, const StageTable& table) {
  plan.recompute.clear();
  for (const StageRange layers : ranges_of(costs, plan.cuts)) {
    const auto level = least_recompute(costs, plan, table, plan.recompute.size(), layers);
    if (!level) return false;
    plan.recompute.push_back(*level);
  }
  return true;
}

CutTransfers cut_transfers(const PlanCosts& costs, const ParallelPlan& plan, const StageTable& before,
                           const StageTable& after, std::size_t stage, std::size_t at) {
  const std::size_t have = plan.degrees_of(stage - 1).data, take = plan.degrees_of(stage).data;
  const Nanoseconds forward =
      costs.transfer(plan, stage - 1, stage, sent_bytes(before.of(at - 1, at).output, have, take));
  return {forward, costs.transfer(plan, stage, stage - 1, sent_bytes(after.of(at, at + 1).input, take, have))};
}

void keep_better(std::optional<PlannerAnswer>& best, PlannerAnswer answer) {
  if (!best || answer.objective < best->objective) best = std::move(answer);
}

void refuse_all(const PlanCosts& costs, const char* planner, const std::vector<Mesh>& meshes, std::size_t zero) {
  std::optional<std::pair<Bytes, ParallelPlan>> nearest;
  LayerDegree degree{0};
  std::optional<StageTable> table;
  for (const Mesh& mesh : meshes) {
    if (mesh.tensor != degree) table.emplace(costs, 1, degree = mesh.tensor);
    ParallelPlan plan = mesh.plan(1, zero);
    plan.cuts = equal_cuts(costs, mesh.row);
    plan.recompute.assign(mesh.row, table->levels().back());
    Bytes excess{0};
    const std::vector<StageRange> ranges = ranges_of(costs, plan.cuts);
    for (std::size_t s = 0; costs.memory && s < ranges.size(); ++s) {
      const StageCost& stage = table->of(ranges[s].begin, ranges[s].end, plan.recompute[s]);
      excess += std::max(Bytes{0}, memory_of(costs, plan, s, stage) - *costs.memory);
    }
    if (!nearest || excess < nearest->first) nearest.emplace(excess, std::move(plan));
  }
  if (nearest && nearest->first > Bytes{0})
    refuse("plan",
           fmt::format("no plan of {} fits: the nearest, {}, exceeds the memory of the devices by {}", planner,
                       describe(nearest->second), format_bytes(nearest->first)),
           "give more devices, or devices with more memory, or use the placer plan, which searches more plans");
  refuse("plan", fmt::format("no plan of {} is possible", planner),
         "use fewer devices, a batch size with more divisors, or a coarser graph");
}

}  // namespace trainyard
