#include "trainyard/place/list/cpop.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "trainyard/place/kit/ranks.hpp"

namespace trainyard {
namespace {

/// The successor with this priority (ties: lower id); none if the path ends here.
OpId next_of_priority(const Graph& graph, OpId op, const IdMap<OpId, ScaledTime>& priority, ScaledTime wanted) {
  OpId next;  // none() is greater than all ids
  const auto consider = [&](OpId successor) {
    if (priority[successor] == wanted) next = std::min(next, successor);
  };
  for (const TensorId tensor : graph.outputs(op)) std::ranges::for_each(graph.consumers(tensor), consider);
  std::ranges::for_each(graph.before(op), consider);
  return next;
}

std::vector<OpId> critical_path_of(const Problem& problem, const IdMap<OpId, ScaledTime>& priority) {
  const Graph& graph = problem.graph();
  OpId at;
  for (const OpId op : problem.ops())
    if (graph.inputs(op).empty() && graph.after(op).empty() && (at.is_none() || priority[op] > priority[at])) at = op;
  const ScaledTime length = priority[at];
  std::vector<OpId> path;
  for (; !at.is_none(); at = next_of_priority(graph, at, priority, length)) path.push_back(at);
  return path;
}

DeviceId critical_device(const Problem& problem, const std::vector<OpId>& path) {
  const auto cost = [&](DeviceId device) {
    std::size_t cannot = 0;
    Nanoseconds time{0};
    for (const OpId op : path) {
      if (problem.can_run(op, device))
        time += problem.duration(op, device);
      else
        ++cannot;
    }
    return std::pair{cannot, time};
  };
  DeviceId best{0};
  auto least = cost(best);
  for (const DeviceId device : problem.devices())
    if (const auto each = cost(device); each < least) {
      least = each;
      best = device;
    }
  return best;
}

}  // namespace

Schedule cpop(const Problem& problem, const ListOptions& options) {
  const MeanCosts means{problem};
  IdMap<OpId, ScaledTime> priority = upward_ranks(problem, means);
  const IdMap<OpId, ScaledTime> downward = downward_ranks(problem, means);
  for (const OpId op : problem.ops()) priority[op] += downward[op];

  const std::vector<OpId> path = critical_path_of(problem, priority);
  const DeviceId device = critical_device(problem, path);
  IdMap<GroupId, bool> critical(problem.group_count(), false);
  for (const OpId op : path) critical[problem.group(op)] = true;

  return list_in_order(problem, options, by_priority_when_free(problem, priority), [&](AnalyticPlan& plan, OpId op) {
    const bool pinned = critical[problem.group(op)] && std::ranges::binary_search(plan.candidates(op), device);
    return pinned ? plan.earliest_slot(op, device) : plan.earliest_finish(op);
  });
}

}  // namespace trainyard
