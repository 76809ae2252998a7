#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

struct PlannerOptions {
  std::function<bool(const ParallelPlan&)> allowed = {};  // asked of degrees, microbatch and schedule; the cuts are any
  std::function<bool()> stop = {};                        // end with what there is
  /// Plans whose stages have degrees of their own besides, where the planner has such (alpa, aceso, piper).
  bool stage_degrees = false;
};

/// A plan, and the objective by which its planner chose it: its own prediction of the step, of Piper the time per
/// sample, in nanoseconds.
struct PlannerAnswer {
  ParallelPlan plan;
  double objective = 0;
};

/// A published planner, on the chain of layers and the costs that PlanCosts are: its own objective, the choices that it
/// has, its search; memory as run_plan() counts it. Planners that choose degrees for each layer are restricted to those
/// of stages, and to equal ones where the caller asks for no others. All run 1F1B but Megatron.
///
/// Each throws InputError ("plan") where none of its plans fits in memory, which names the nearest.
struct Planner {
  const char* name;
  const char* summary;
  const char* source;
  PlannerAnswer (*plan)(const PlanCosts& costs, const PlannerOptions& options);
};

/// megatron, alpa, galvatron, aceso, piper, dapple.
std::span<const Planner> planners();

}  // namespace trainyard
