#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "rows.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard::bench {

/// Plan of a published row: equal layers, cut into equal stages. The row gives data, tensor and pipeline degrees, batch
/// and microbatch.
ParallelPlan plan_of(const MeasuredRow& row, std::size_t layers, PipelineSchedule schedule, std::size_t chunks = 1);

/// Costs for run_plan() in which transfers, all-reduces and updates take no time; the caller sets its own.
PlanCosts bare_costs(const MeasuredRow& row, std::size_t layers, LayerCost layer);

/// Cost of a layer with these times, in seconds.
LayerCost layer_cost(double forward, double input_gradient, double weight_gradient);

/// check_plan() and run_plan(). Calls cannot() if the plan has more than 10^7 tasks.
PlanStep run_row(const PlanCosts& costs, const ParallelPlan& plan);
/// Step time of run_row() in seconds.
double step_seconds(const PlanCosts& costs, const ParallelPlan& plan);

}  // namespace trainyard::bench
