#include "trainyard/place/judge/plan_order.hpp"

#include <cassert>

#include "trainyard/core/sort_by.hpp"

namespace trainyard {

void set_order(const Problem& problem, std::vector<OpId> taken, PlanOrder order, Schedule& schedule) {
  assert(schedule.plan && order != PlanOrder::best);
  // Ops that start together stay as they were taken, so an op of no duration stays before those that wait for it.
  if (order != PlanOrder::rank) sort_by(taken, [&](OpId op) { return schedule.plan->start[op]; });
  schedule.order = {};
  schedule.priority = {};
  if (order == PlanOrder::strict) {
    schedule.policy = Policy::strict;
    schedule.order.assign(problem.device_count(), {});
    for (const OpId op : taken) schedule.order[schedule.placement[op]].push_back(op);
  } else {
    schedule.policy = Policy::priority;
    schedule.priority.assign(taken.size(), 0);
    auto urgency = static_cast<double>(taken.size());
    for (const OpId op : taken) schedule.priority[op] = urgency--;
  }
}

Outcome keep_order(Evaluator& evaluator, const std::vector<OpId>& taken, PlanOrder order, Schedule& schedule,
                   const std::function<bool()>& stop) {
  const Problem& problem = evaluator.problem();
  PlanOrder best = order == PlanOrder::best ? PlanOrder::rank : order;
  set_order(problem, taken, best, schedule);
  Outcome least = evaluator.outcome(schedule);
  if (order != PlanOrder::best) return least;
  PlanOrder last = best;
  for (const PlanOrder each : {PlanOrder::start, PlanOrder::strict}) {
    if (stop && stop()) break;
    last = each;
    set_order(problem, taken, each, schedule);
    const Outcome outcome = evaluator.outcome(schedule);
    if (outcome >= least) continue;
    least = outcome;
    best = each;
  }
  if (best != last) set_order(problem, taken, best, schedule);  // the schedule has the order tried last
  return least;
}

}  // namespace trainyard
