#pragma once

#include <functional>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Options of every list scheduler here.
struct ListOptions {
  bool insertion = true;  // an op may go into a gap before later ones
  PlanOrder order = PlanOrder::best;
  std::function<bool()> stop = {};  // asked all the time: ends with the plans that are done, or throws OutOfTime
};

/// Places every op in the plan and says in which order it took them, each after all that it depends on.
using PlanRun = std::function<std::vector<OpId>(AnalyticPlan&)>;

/// The schedule of a list scheduler, with its plan. Where memory keeps an op off a device, or the schedule does not fit
/// in simulation, it is planned on less of each memory too (best_retreat). Throws OutOfTime where `stop` ends the first
/// plan, InputError: "not-placed" where the run leaves an op out, "placer" without one.
Schedule list_schedule(const Problem& problem, const ListOptions& options, const PlanRun& run);

}  // namespace trainyard
