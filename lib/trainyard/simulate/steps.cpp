#include "trainyard/simulate/steps.hpp"

#include <algorithm>
#include <utility>

#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/steps.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// Rank of every op under the policy of one step, from 0; higher is more urgent.
struct Urgency {
  IdMap<OpId, std::size_t> rank;
  std::size_t ranks = 1;
};

Urgency urgency_of(const Problem& problem, const Schedule& schedule) {
  Urgency urgency{IdMap<OpId, std::size_t>(problem.op_count(), 0)};
  if (!schedule.links_by_priority()) return urgency;
  std::vector<double> levels = schedule.priority.values();
  std::ranges::sort(levels);
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  for (const OpId op : problem.ops())
    urgency.rank[op] =
        static_cast<std::size_t>(std::ranges::lower_bound(levels, schedule.priority[op]) - levels.begin());
  urgency.ranks = levels.size();
  return urgency;
}

Schedule unroll_schedule(const UnrolledGraph& unrolled, const Problem& problem, const Schedule& schedule) {
  Schedule result{.placement = {},
                  .policy = schedule.policy == Policy::strict ? Policy::strict : Policy::priority,
                  .urgent_links = schedule.policy == Policy::strict && schedule.urgent_links,
                  .placer = schedule.placer,
                  .seed = schedule.seed};
  const Urgency urgency = urgency_of(problem, schedule);
  if (result.policy == Policy::strict) result.order.assign(problem.device_count(), {});
  for (const OpId op : unrolled.graph.ops()) {
    const OpId like = unrolled.placed_as(op);
    result.placement.push_back(schedule.placement[like]);
    // Whole numbers below 2^53; the last step has the lowest ranks.
    if (result.policy == Policy::priority || result.urgent_links)
      result.priority.push_back(
          static_cast<double>((unrolled.steps - 1 - unrolled.step(op)) * urgency.ranks + urgency.rank[like]));
  }
  if (result.policy == Policy::strict) {
    for (std::size_t step = 0; step < unrolled.steps; ++step)
      for (const DeviceId device : problem.devices())
        for (const OpId op : schedule.order[device])
          result.order[device].push_back(OpId{step * unrolled.ops_per_step + op.index()});
    // Ops that only keep tensors take no time, so their place in the order does not matter.
    for (std::size_t i = unrolled.steps * unrolled.ops_per_step; i < unrolled.graph.op_count(); ++i)
      result.order[result.placement[OpId{i}]].push_back(OpId{i});
  }
  return result;
}

}  // namespace

const char* name_of(SteadyState::From from) {
  switch (from) {
    case SteadyState::From::one_step:
      return "one-step";
    case SteadyState::From::periodic:
      return "periodic";
    case SteadyState::From::average:
      return "average";
    case SteadyState::From::load:
      break;
  }
  return "load";
}

SteadyState steady_state(std::span<const Nanoseconds> ends, Nanoseconds busiest_load) {
  if (ends.empty()) refuse("range", "a steady state needs at least one step", "give the end time of each step");
  const std::size_t k = ends.size();
  if (k == 1) return {ends.front(), SteadyState::From::one_step, 0};
  const auto increment = [&](std::size_t i) { return ends[i] - ends[i - 1]; };
  const auto repeats = [&](std::size_t period) {
    for (std::size_t i = k - 3 * period; i + period < k; ++i)
      if (increment(i) != increment(i + period)) return false;
    return true;
  };
  const std::size_t half = k / 2;
  SteadyState result{mean_of(ends[k - 1] - ends[half - 1], k - half), SteadyState::From::average, 0};
  for (std::size_t period = 1; 3 * period < k; ++period)
    if (repeats(period)) {
      result = {mean_of(ends[k - 1] - ends[k - 1 - period], period), SteadyState::From::periodic, period};
      break;
    }
  if (result.step_time < busiest_load) result = {busiest_load, SteadyState::From::load, 0};
  return result;
}

StepTimes simulate_steps(const Problem& whole_problem, const Schedule& schedule, std::size_t steps) {
  if (steps == 0) refuse("range", "0 steps cannot be simulated", "give 1 or more");
  const Problem problem = scheduled_problem(whole_problem, schedule);
  check_schedule(problem, schedule);
  if (steps > 1) refuse_own_rule(schedule, "a simulation of several steps");
  UnrolledGraph unrolled = unroll_steps(problem.graph(), steps);
  Schedule whole = steps == 1 ? schedule : unroll_schedule(unrolled, problem, schedule);
  Problem copies = steps == 1 ? problem : Problem{unrolled.graph, problem, unrolled.original};
  Timeline timeline = simulate(copies, whole);

  std::vector<Nanoseconds> ends(steps, Nanoseconds{0});
  for (const OpId op : copies.ops()) {
    Nanoseconds& end = ends[unrolled.step(op)];
    end = std::max(end, timeline.ops[op].end);
  }
  IdMap<DeviceId, Nanoseconds> load(problem.device_count());
  for (const OpId op : problem.ops()) load[schedule.placement[op]] += problem.duration(op, schedule.placement[op]);
  const SteadyState steady = steady_state(ends, *std::ranges::max_element(load));
  return {std::move(ends),   steady,           problem.op_count(), unrolled.ties,
          std::move(copies), std::move(whole), std::move(timeline)};
}

}  // namespace trainyard
