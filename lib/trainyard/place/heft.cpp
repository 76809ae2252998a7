#include "trainyard/place/heft.hpp"

#include <algorithm>
#include <vector>

#include "trainyard/place/analytic_plan.hpp"
#include "trainyard/place/ranks.hpp"

namespace trainyard {
namespace {

/// The first of `order` is the most urgent.
IdMap<OpId, double> priorities(const std::vector<OpId>& order) {
  IdMap<OpId, double> priority(order.size());
  auto urgency = static_cast<double>(order.size());
  for (const OpId op : order) priority[op] = urgency--;
  return priority;
}

}  // namespace

Schedule heft(const Problem& problem, const HeftOptions& options) {
  std::vector<OpId> order = by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem}));
  AnalyticPlan plan{problem, options.insertion};
  for (const OpId op : order) plan.place(op, plan.earliest_finish(op));

  Schedule schedule = plan.schedule();
  // Ops that start together stay by rank, so an op of no duration stays before those that wait for it.
  if (options.order != PlanOrder::rank) std::ranges::stable_sort(order, {}, [&](OpId op) { return plan.start(op); });
  if (options.order == PlanOrder::strict) {
    schedule.policy = Policy::strict;
    schedule.order.assign(problem.device_count(), {});
    for (const OpId op : order) schedule.order[schedule.placement[op]].push_back(op);
  } else {
    schedule.policy = Policy::priority;
    schedule.priority = priorities(order);
  }
  return schedule;
}

}  // namespace trainyard
