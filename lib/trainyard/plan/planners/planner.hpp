#pragma once

#include <functional>
#include <span>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

struct PlannerOptions {
  std::function<bool(const ParallelPlan&)> allowed = {};  // filter on degrees, microbatch, schedule; cuts are arbitrary
  std::function<bool()> stop = {};                        // polled; true ends the search with the best plan so far
  /// Also search plans whose stages have different degrees, for planners that have these (alpa, aceso, piper).
  bool stage_degrees = false;
};

/// A plan, and the value of its planner's objective in nanoseconds: the planner's own prediction of the step, or for
/// Piper the time per sample.
struct PlannerAnswer {
  ParallelPlan plan;
  double objective = 0;
};

/// A published planner, applied to the chain of layers and the costs of PlanCosts. Objective, choices and search are
/// the planner's own. Memory is counted as in run_plan(), but always with all gradients, and on equal devices
/// (PlanCosts::share_of_memory is ignored). Planners that choose degrees per layer are restricted to degrees per stage,
/// and to equal degrees unless PlannerOptions::stage_degrees. All use 1F1B; Megatron may interleave.
///
/// Each throws InputError ("plan") if none of its plans fits in memory; the message names the nearest plan.
struct Planner {
  const char* name;
  const char* summary;
  const char* source;
  PlannerAnswer (*plan)(const PlanCosts& costs, const PlannerOptions& options);
};

/// All planners: megatron, alpa, galvatron, aceso, piper, dapple.
std::span<const Planner> planners();

}  // namespace trainyard
