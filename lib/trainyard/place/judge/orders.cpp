#include "trainyard/place/judge/orders.hpp"

#include <algorithm>
#include <boost/heap/d_ary_heap.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "trainyard/core/sort_by.hpp"

namespace trainyard {
namespace {

/// Top levels of a placement: the longest chain before an op, transfers included.
IdMap<OpId, Nanoseconds> placed_top_levels(const Problem& problem, const Placement& placement) {
  const Graph& graph = problem.graph();
  IdMap<OpId, Nanoseconds> levels(problem.op_count(), Nanoseconds{0});
  for (const OpId op : graph.topological_order()) {
    Nanoseconds& level = levels[op];
    for (const TensorId tensor : graph.inputs(op)) {
      const OpId from = graph.producer(tensor);
      Nanoseconds there = levels[from] + problem.duration(from, placement[from]);
      if (placement[from] != placement[op]) there += problem.transfer_time(tensor, placement[from], placement[op]);
      level = std::max(level, there);
    }
    for (const OpId before : graph.after(op))
      level = std::max(level, levels[before] + problem.duration(before, placement[before]));
  }
  return levels;
}

}  // namespace

IdMap<OpId, Nanoseconds> placed_bottom_levels(const Problem& problem, const Placement& placement) {
  check_placement(problem, placement);
  const Graph& graph = problem.graph();
  IdMap<OpId, Nanoseconds> levels(problem.op_count(), Nanoseconds{0});
  const auto& order = graph.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const OpId op = *at;
    Nanoseconds below{0};
    for (const TensorId tensor : graph.outputs(op))
      for (const OpId to : graph.consumers(tensor)) {
        Nanoseconds there = levels[to];
        if (placement[to] != placement[op]) there += problem.transfer_time(tensor, placement[op], placement[to]);
        below = std::max(below, there);
      }
    for (const OpId to : graph.before(op)) below = std::max(below, levels[to]);
    levels[op] = below + problem.duration(op, placement[op]);
  }
  return levels;
}

Schedule by_bottom_level(const Problem& problem, const Placement& placement) {
  Schedule schedule{.placement = placement, .policy = Policy::priority};
  schedule.priority.assign(problem.op_count(), 0);
  const auto levels = placed_bottom_levels(problem, placement);
  for (const OpId op : problem.ops()) schedule.priority[op] = static_cast<double>(levels[op].count);
  return schedule;
}

Schedule in_started_order(const Problem& problem, const Placement& placement, const Timeline& timeline) {
  check_sizes(problem, placement, timeline);
  Schedule schedule{.placement = placement, .policy = Policy::strict};
  schedule.order.assign(problem.device_count(), {});
  // Ties by topological order: of ops that start together, one of no duration may have to come first.
  for (const OpId op : problem.graph().topological_order()) schedule.order[placement[op]].push_back(op);
  for (auto& ops : schedule.order)
    sort_by(ops, [&](OpId op) { return std::pair{timeline.ops[op].start, timeline.ops[op].end}; });
  return schedule;
}

Schedule from_the_end(const Problem& problem, const Placement& placement) {
  check_placement(problem, placement);
  const Graph& graph = problem.graph();
  const auto levels = placed_top_levels(problem, placement);
  struct Later {
    const IdMap<OpId, Nanoseconds>* levels;
    bool operator()(OpId a, OpId b) const {
      return std::tuple{(*levels)[a], b.index()} < std::tuple{(*levels)[b], a.index()};
    }
  };
  boost::heap::d_ary_heap<OpId, boost::heap::arity<4>, boost::heap::compare<Later>> free{Later{&levels}};

  // Times run backwards from the end of the step.
  IdMap<OpId, std::uint32_t> waiting(problem.op_count(), 0);
  IdMap<OpId, Nanoseconds> ready(problem.op_count(), Nanoseconds{0});
  IdMap<DeviceId, Nanoseconds> device_free(problem.device_count(), Nanoseconds{0});
  Schedule schedule{.placement = placement, .policy = Policy::strict};
  schedule.order.assign(problem.device_count(), {});
  for (const OpId op : problem.ops()) {
    for (const TensorId tensor : graph.outputs(op))
      waiting[op] += static_cast<std::uint32_t>(graph.consumers(tensor).size());
    waiting[op] += static_cast<std::uint32_t>(graph.before(op).size());
    if (waiting[op] == 0) free.push(op);
  }
  while (!free.empty()) {
    const OpId op = free.top();
    free.pop();
    const DeviceId device = placement[op];
    const Nanoseconds at = std::max(ready[op], device_free[device]);
    const Nanoseconds done = at + problem.duration(op, device);
    device_free[device] = done;
    schedule.order[device].push_back(op);
    const auto release = [&](OpId from, Nanoseconds when) {
      ready[from] = std::max(ready[from], when);
      if (--waiting[from] == 0) free.push(from);
    };
    for (const TensorId tensor : graph.inputs(op)) {
      const OpId from = graph.producer(tensor);
      release(from, placement[from] == device ? done : done + problem.transfer_time(tensor, placement[from], device));
    }
    for (const OpId from : graph.after(op)) release(from, done);
  }
  for (auto& ops : schedule.order) std::ranges::reverse(ops);
  return schedule;
}

Ordered best_order(Evaluator& evaluator, const Schedule& schedule) {
  const Problem& problem = evaluator.problem();
  std::optional<Ordered> best;
  std::size_t evaluations = 0;
  const auto consider = [&](Schedule candidate) {
    const Outcome outcome = evaluator.outcome(candidate);
    ++evaluations;
    if (best && outcome >= best->outcome) return;
    best = Ordered{std::move(candidate), outcome};
  };
  consider(schedule);
  if (schedule.policy != Policy::fifo) consider({.placement = schedule.placement});
  consider(by_bottom_level(problem, schedule.placement));
  consider(from_the_end(problem, schedule.placement));
  consider(in_started_order(problem, schedule.placement, evaluator.simulation().timeline(best->schedule)));
  best->evaluations = evaluations;
  best->schedule.plan = schedule.plan;
  best->schedule.rewrites = schedule.rewrites;
  best->schedule.parallel = schedule.parallel;
  best->schedule.plan_bound = schedule.plan_bound;
  return std::move(*best);
}

Ordered best_order(const Problem& problem, const Schedule& schedule) {
  Evaluator evaluator{problem};
  return best_order(evaluator, schedule);
}

}  // namespace trainyard
