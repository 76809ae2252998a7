#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "rows.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard::bench {

/// Plans of published rows: equal layers, cut into equal stages. The row gives data, tensor and pipeline degree, batch
/// and microbatch.
ParallelPlan plan_of(const MeasuredRow& row, std::size_t layers, PipelineSchedule schedule, std::size_t chunks = 1);

/// What run_plan() takes, with no transfers, sums and updates: the caller adds its own.
PlanCosts bare_costs(const MeasuredRow& row, std::size_t layers, LayerCost layer);

/// A layer's cost from times in seconds.
LayerCost layer_cost(double forward, double input_gradient, double weight_gradient);

/// run_plan() of as many tasks as are for a published row: cannot() beyond 10^7.
PlanStep run_row(const PlanCosts& costs, const ParallelPlan& plan);
/// Seconds of the step.
double step_seconds(const PlanCosts& costs, const ParallelPlan& plan);

}  // namespace trainyard::bench
