#include "trainyard/place/plan_order.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// The first of `ops` is the most urgent.
IdMap<OpId, double> priorities(const std::vector<OpId>& ops) {
  IdMap<OpId, double> priority(ops.size());
  auto urgency = static_cast<double>(ops.size());
  for (const OpId op : ops) priority[op] = urgency--;
  return priority;
}

Schedule with_order(const Problem& problem, std::vector<OpId> taken, PlanOrder order, Schedule schedule) {
  // Ops that start together stay as they were taken, so an op of no duration stays before those that wait for it.
  if (order != PlanOrder::rank) std::ranges::stable_sort(taken, {}, [&](OpId op) { return schedule.plan->start[op]; });
  if (order == PlanOrder::strict) {
    schedule.policy = Policy::strict;
    schedule.order.assign(problem.device_count(), {});
    for (const OpId op : taken) schedule.order[schedule.placement[op]].push_back(op);
  } else {
    schedule.policy = Policy::priority;
    schedule.priority = priorities(taken);
  }
  return schedule;
}

}  // namespace

Outcome simulated_outcome(const Problem& problem, const Schedule& schedule) {
  const Timeline timeline = simulate(problem, schedule);
  Outcome outcome{Bytes{0}, timeline.makespan};
  for (const DeviceUse& use : timeline.devices)
    if (use.out_of_memory) outcome.excess += use.out_of_memory->over;
  return outcome;
}

Outcome keep_order(const Problem& problem, std::vector<OpId> taken, PlanOrder order, Schedule& schedule) {
  assert(schedule.plan);
  if (order != PlanOrder::best) {
    schedule = with_order(problem, std::move(taken), order, std::move(schedule));
    return simulated_outcome(problem, schedule);
  }
  std::optional<Outcome> best;
  Schedule chosen;
  for (const PlanOrder each : {PlanOrder::rank, PlanOrder::start, PlanOrder::strict}) {
    Schedule candidate = with_order(problem, taken, each, schedule);
    const Outcome outcome = simulated_outcome(problem, candidate);
    if (best && outcome >= *best) continue;
    best = outcome;
    chosen = std::move(candidate);
  }
  schedule = std::move(chosen);
  return *best;
}

}  // namespace trainyard
