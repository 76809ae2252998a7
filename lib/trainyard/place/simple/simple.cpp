#include "trainyard/place/simple/simple.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/groups.hpp"
#include "trainyard/place/kit/memory_ledger.hpp"

namespace trainyard {
namespace {

Placement from_groups(const Problem& problem, const IdMap<GroupId, DeviceId>& devices) {
  Placement placement(problem.op_count());
  for (const OpId op : problem.ops()) placement[op] = devices[problem.group(op)];
  return placement;
}

/// All groups, by their first ops in topological order.
std::vector<GroupId> groups_in_order(const Problem& problem) {
  std::vector<GroupId> order;
  IdMap<GroupId, bool> seen(problem.group_count(), false);
  for (const OpId op : problem.graph().topological_order()) {
    const GroupId group = problem.group(op);
    if (!seen[group]) order.push_back(group);
    seen[group] = true;
  }
  return order;
}

/// Places every group in order, on the device that `choose(candidates)` returns.
template <class Choose>
Schedule place_groups(const Problem& problem, Choose choose) {
  const auto able = group_devices(problem);
  MemoryLedger memory{problem};
  IdMap<GroupId, DeviceId> devices(problem.group_count());
  std::vector<DeviceId> candidates;
  for (const GroupId group : groups_in_order(problem)) {
    memory.narrow(group, able[group], candidates);
    devices[group] = choose(candidates);
    memory.take(group, devices[group]);
  }
  return {.placement = from_groups(problem, devices)};
}

}  // namespace

Schedule place_single(const Problem& problem) {
  const auto able = group_devices(problem);
  IdMap<GroupId, DeviceId> elsewhere(problem.group_count());
  for (const GroupId group : elsewhere.ids()) elsewhere[group] = fastest_device(problem, group, able[group]);

  const auto runs_everything = [&](DeviceId device) {
    return std::all_of(problem.ops().begin(), problem.ops().end(),
                       [&](OpId op) { return problem.can_run(op, device); });
  };
  // If a device can run everything, a later device equal to it gives no other answer.
  const auto seen_its_like = [&](DeviceId device) {
    const Device& wanted = problem.cluster().device(device);
    for (const DeviceId earlier : IdRange<DeviceId>{device.index()}) {
      const Device& other = problem.cluster().device(earlier);
      if (problem.column(earlier) == problem.column(device) && other.memory == wanted.memory && other.gap == wanted.gap)
        return runs_everything(device);
    }
    return false;
  };

  Evaluator evaluator{problem};
  std::optional<Outcome> best;
  Schedule chosen;
  for (const DeviceId device : problem.devices()) {
    if (seen_its_like(device)) continue;
    IdMap<GroupId, DeviceId> devices(problem.group_count());
    for (const GroupId group : devices.ids())
      devices[group] = std::ranges::binary_search(able[group], device) ? device : elsewhere[group];
    Schedule schedule{.placement = from_groups(problem, devices)};
    const Outcome outcome = evaluator.outcome(schedule);
    if (!best || outcome < *best) {
      best = outcome;
      chosen = std::move(schedule);
    }
  }
  return chosen;
}

Schedule place_round_robin(const Problem& problem) {
  DeviceId next{0};
  return place_groups(problem, [&](const std::vector<DeviceId>& candidates) {
    const auto at = std::ranges::lower_bound(candidates, next);
    const DeviceId device = at == candidates.end() ? candidates.front() : *at;
    next = DeviceId{(device.index() + 1) % problem.device_count()};
    return device;
  });
}

Schedule place_random(const Problem& problem, std::uint64_t seed) {
  Random random{seed};
  return place_groups(problem, [&](const std::vector<DeviceId>& candidates) {
    return candidates[static_cast<std::size_t>(random.below(candidates.size()))];
  });
}

}  // namespace trainyard
