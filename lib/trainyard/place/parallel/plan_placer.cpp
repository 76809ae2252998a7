#include "trainyard/place/parallel/plan_placer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/limits.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/layer_devices.hpp"
#include "trainyard/place/parallel/plan_costs.hpp"
#include "trainyard/place/parallel/plan_schedule.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/rewrite/parameter_use.hpp"

namespace trainyard {
namespace {

/// Plans that are simulated at most until one fits.
constexpr std::size_t kTried = 24;
/// Samples for each device where the batch is not known.
constexpr std::size_t kSamples = 16;

bool has_weight_gradients(const Graph& graph, const ParameterUse& use) {
  for (const OpId op : graph.ops()) {
    const auto made = graph.outputs(op);
    if (graph.phase(op) == Phase::backward && graph.type(op) != "AddGrad" && !made.empty() &&
        std::all_of(made.begin(), made.end(), [&](TensorId tensor) { return bool{use.is_gradient[tensor]}; }))
      return true;
  }
  return false;
}

StagePlan stage_plan(const ParallelPlan& plan, const ChainOfBlocks& chain, std::size_t batch) {
  StagePlan stages{.schedule = plan.schedule,
                   .chunks = plan.chunks,
                   .microbatches = batch / plan.data / plan.microbatch,
                   .replicas = plan.data,
                   .zero = plan.zero,
                   .stages = chain.stages(plan.cuts)};
  for (const bool again : plan.recompute)
    stages.recompute.push_back(again ? StageRecompute::blocks : StageRecompute::no);
  return stages;
}

}  // namespace

Schedule place_plan(const Problem& problem, const PlanPlacerOptions& options) {
  const Graph& graph = problem.graph();
  if (!trains_parameters(graph))
    throw InputError(
        {.code = "no-training",
         .message = fmt::format("graph '{}' trains no parameters: it has no batch to divide", graph.name()),
         .help = "plans are of training steps"});
  const std::vector<DeviceId> devices = worthy_devices(problem);
  const std::size_t batch =
      options.batch ? static_cast<std::size_t>(std::max<std::int64_t>(*options.batch, 1)) : kSamples * devices.size();
  const Layers layers = find_layers(graph);
  ChainOfBlocks chain{problem, layers, devices, batch};
  PlanSearchOptions search{.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved},
                           .kept = kTried,
                           .threads = options.threads,
                           .stop = options.stop};
  if (has_weight_gradients(graph, ParameterUse{graph}))
    for (const auto each : {PipelineSchedule::zb_h1, PipelineSchedule::zb_h2, PipelineSchedule::zb_v,
                            PipelineSchedule::v_half, PipelineSchedule::v_min})
      search.schedules.push_back(each);
  search.allowed = [&](const ParallelPlan& plan) {
    return planned_ops(graph, plan.data, plan.stages(), batch / plan.data / plan.microbatch) <=
           static_cast<double>(limits::kRewrittenOps);
  };
  const PlanSearchResult found = search_plans(chain.costs(), search);

  std::optional<PlannedSchedule> best;
  const ParallelPlan* chosen = nullptr;
  std::set<std::tuple<std::size_t, std::size_t, PipelineSchedule>> fitting;  // degrees and schedules that do
  for (const RatedPlan& rated : found.best) {
    if (fitting.size() >= options.candidates) break;
    const ParallelPlan& plan = rated.plan;
    const std::tuple kind{plan.data, plan.stages(), plan.schedule};
    if (fitting.contains(kind)) continue;
    // The row that the plan has, with its replicas side by side.
    const std::vector<DeviceId> mesh(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(plan.devices()));
    try {
      PlannedSchedule each = schedule_of(problem, layers, stage_plan(plan, chain, batch), mesh, options.stop);
      if (each.outcome.excess == Bytes{0}) fitting.insert(kind);
      if (best && best->outcome <= each.outcome) continue;
      best = std::move(each);
      chosen = &plan;
    } catch (const OutOfTime&) {
      if (!best) throw;
      break;
    } catch (const InputError& error) {
      if (error.findings().front().code != "too-large") throw;
    }
  }
  if (!best)
    throw InputError(
        {.code = "too-large",
         .message = fmt::format("graph '{}' is too large to be simulated whole as any plan over {} devices",
                                graph.name(), devices.size()),
         .help = "give fewer devices, or a coarser graph"});
  best->schedule.description = describe(*chosen);
  return std::move(best->schedule);
}

}  // namespace trainyard
