#include "plans.hpp"

#include "predict.hpp"

namespace trainyard::bench {
namespace {

constexpr std::size_t kMostTasks = 10'000'000;

}  // namespace

ParallelPlan plan_of(const MeasuredRow& row, std::size_t layers, PipelineSchedule schedule, std::size_t chunks) {
  ParallelPlan plan{.data = row.data, .tensor = row.tensor, .schedule = schedule};
  plan.chunks = chunks_of(schedule, chunks);
  plan.microbatch = static_cast<std::size_t>(told(row.microbatch, "microbatch"));
  const std::size_t stages = row.pipeline * plan.chunks;
  for (std::size_t s = 1; s < stages; ++s) plan.cuts.push_back(s * layers / stages);
  return plan;
}

PlanCosts bare_costs(const MeasuredRow& row, std::size_t layers, LayerCost layer) {
  PlanCosts costs{.layers = layers, .batch = static_cast<std::size_t>(told(row.batch, "batch")), .devices = row.gpus};
  costs.layer_degrees = {{row.tensor}};
  costs.layer = [layer](std::size_t, std::size_t, LayerDegree) { return layer; };
  costs.transfer = [](const ParallelPlan&, std::size_t, std::size_t, Bytes) { return Nanoseconds{0}; };
  costs.all_reduce = [](const ParallelPlan&, std::size_t, Bytes) { return Nanoseconds{0}; };
  costs.update = [](Bytes, std::size_t, std::size_t) { return Nanoseconds{0}; };
  return costs;
}

LayerCost layer_cost(double forward, double input_gradient, double weight_gradient) {
  LayerCost cost{};
  cost.forward = nanoseconds_from_seconds(forward);
  cost.input_gradient = nanoseconds_from_seconds(input_gradient);
  cost.weight_gradient = nanoseconds_from_seconds(weight_gradient);
  return cost;
}

PlanStep run_row(const PlanCosts& costs, const ParallelPlan& plan) {
  check_plan(costs, plan);
  if (costs.batch / (plan.data * plan.microbatch) > kMostTasks / plan.stages())
    cannot("the plan has more than 10^7 tasks");
  return run_plan(costs, plan);
}

double step_seconds(const PlanCosts& costs, const ParallelPlan& plan) { return seconds(run_row(costs, plan).step); }

}  // namespace trainyard::bench
