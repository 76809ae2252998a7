#pragma once

#include <functional>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/place/analytic_plan.hpp"
#include "trainyard/place/plan_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// What every list scheduler here can be told.
struct ListOptions {
  bool insertion = true;  // an op may go into a gap before later ones
  PlanOrder order = PlanOrder::best;
};

/// Places every op in the plan and says in which order it took them, each after all that it depends on.
using PlanRun = std::function<std::vector<OpId>(AnalyticPlan&)>;

/// The schedule of a list scheduler, with its plan. Where memory keeps an op off a device, or the schedule does not fit
/// in simulation, it is planned on 90, 80, ... 50 % of each memory too, and the schedule with the best simulated
/// outcome is kept: the plan's account of memory is a rough one, and a device filled to the brim drives what comes late
/// apart.
Schedule list_schedule(const Problem& problem, const ListOptions& options, const PlanRun& run);

}  // namespace trainyard
