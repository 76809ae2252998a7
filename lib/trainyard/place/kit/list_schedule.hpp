#pragma once

#include <functional>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Options that all list schedulers share.
struct ListOptions {
  bool insertion = true;  // an op may fill a gap before ops on the device
  PlanOrder order = PlanOrder::best;
  std::function<bool()> stop = {};  // polled; true ends with the plans done so far, or throws OutOfTime
};

/// Places every op in the plan, and returns the ops in the order in which it took them, each after all that it depends
/// on.
using PlanRun = std::function<std::vector<OpId>(AnalyticPlan&)>;

/// The schedule of a list scheduler, with its plan. If memory keeps an op off a device, or the schedule does not fit in
/// simulation, plans with less of each memory are tried too (best_retreat). Throws OutOfTime if `stop` ends the first
/// plan; InputError ("not-placed") if the run leaves an op out; InputError ("placer") if `run` is empty.
Schedule list_schedule(const Problem& problem, const ListOptions& options, const PlanRun& run);

/// Chooses the slot of an op, all ops before it being placed.
using SlotChoice = std::function<AnalyticPlan::Slot(AnalyticPlan&, OpId)>;

/// list_schedule() of a run that takes the ops in this order, which is topological.
Schedule list_in_order(const Problem& problem, const ListOptions& options, const std::vector<OpId>& order,
                       const SlotChoice& choose = &AnalyticPlan::earliest_finish);

}  // namespace trainyard
