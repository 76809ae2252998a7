#include "plans.hpp"

#include <utility>

namespace trainyard::bench {

ParallelPlan plan_of(const MeasuredRow& row, std::size_t layers, PipelineSchedule schedule, std::size_t chunks) {
  ParallelPlan plan{.data = row.data, .tensor = row.tensor, .schedule = schedule};
  plan.chunks = chunks_of(schedule, chunks);
  plan.microbatch = static_cast<std::size_t>(*row.microbatch);
  const std::size_t stages = row.pipeline * plan.chunks;
  for (std::size_t s = 1; s < stages; ++s) plan.cuts.push_back(s * layers / stages);
  return plan;
}

PlanCosts bare_costs(const MeasuredRow& row, std::size_t layers, LayerCost layer) {
  PlanCosts costs{.layers = layers, .batch = static_cast<std::size_t>(*row.batch), .devices = row.gpus};
  costs.tensor_degrees = {row.tensor};
  costs.layer = [layer](std::size_t, std::size_t, std::size_t) { return layer; };
  costs.transfer = [](const ParallelPlan&, std::size_t, std::size_t, Bytes) { return Nanoseconds{0}; };
  costs.all_reduce = [](const ParallelPlan&, std::size_t, Bytes) { return Nanoseconds{0}; };
  costs.update = [](Bytes, std::size_t) { return Nanoseconds{0}; };
  return costs;
}

LayerCost layer_cost(double forward, double input_gradient, double weight_gradient) {
  LayerCost cost{};
  cost.forward = nanoseconds_from_seconds(forward);
  cost.input_gradient = nanoseconds_from_seconds(input_gradient);
  cost.weight_gradient = nanoseconds_from_seconds(weight_gradient);
  return cost;
}

double step_seconds(const PlanCosts& costs, const ParallelPlan& plan) { return seconds(run_plan(costs, plan).step); }

}  // namespace trainyard::bench
