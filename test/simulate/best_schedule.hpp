#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/assignments.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::test {

/// Calls `visit` with every topological order of the ops.
template <class Visit>
void for_each_topological_order(const Graph& graph, std::vector<OpId>& order, IdMap<OpId, std::uint8_t>& taken,
                                const Visit& visit) {
  if (order.size() == graph.op_count()) return visit(order);
  for (const OpId op : graph.ops()) {
    if (taken[op]) continue;
    const bool free =
        std::ranges::all_of(graph.inputs(op), [&](TensorId t) { return taken[graph.producer(t)] != 0; }) &&
        std::ranges::all_of(graph.after(op), [&](OpId earlier) { return taken[earlier] != 0; });
    if (!free) continue;
    taken[op] = 1;
    order.push_back(op);
    for_each_topological_order(graph, order, taken, visit);
    order.pop_back();
    taken[op] = 0;
  }
}

/// Least makespan over all placements and all strict orders, by enumeration. With `fitting`, only over those that fit
/// in memory (kLongestTime if none does).
inline Nanoseconds least_makespan(const Problem& problem, bool fitting = false) {
  Simulation simulation(problem);
  Nanoseconds best = kLongestTime;
  std::vector<std::vector<OpId>> orders;
  std::vector<OpId> order;
  IdMap<OpId, std::uint8_t> taken(problem.op_count(), 0);
  for_each_topological_order(problem.graph(), order, taken, [&](const std::vector<OpId>& o) { orders.push_back(o); });

  Schedule schedule;
  schedule.policy = Policy::strict;
  for_each_assignment(problem.op_count(), problem.device_count(), [&](const std::vector<DeviceId>& devices) {
    schedule.placement = Placement{devices};
    for (const OpId op : problem.ops()) {
      const DeviceId device = schedule.placement[op];
      const DeviceId group_device = schedule.placement[problem.group_ops(problem.group(op)).front()];
      if (!problem.can_run(op, device) || device != group_device) return;
    }
    for (const std::vector<OpId>& each : orders) {
      schedule.order.assign(problem.device_count(), {});
      for (const OpId op : each) schedule.order[schedule.placement[op]].push_back(op);
      if (!fitting)
        best = std::min(best, simulation.makespan(schedule));
      else if (const MemoryPeaks& peaks = simulation.peaks(schedule); peaks.fits)
        best = std::min(best, peaks.makespan);
    }
  });
  return best;
}

}  // namespace trainyard::test
