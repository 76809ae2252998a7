#include "trainyard/place/kit/layer_devices.hpp"

#include <algorithm>

#include "trainyard/place/kit/groups.hpp"

namespace trainyard {

std::vector<DeviceId> worthy_devices(const Problem& problem) {
  struct Work {
    Nanoseconds here, at_best;  // time of the ops that the device can run: on it, and at their shortest
  };
  std::vector<Work> columns(problem.column_count());
  Nanoseconds most{0};
  for (const OpId op : problem.ops()) {
    const Nanoseconds shortest = problem.shortest(op);
    for (std::size_t column = 0; column < columns.size(); ++column)
      if (const Nanoseconds time = problem.durations()[op.index() * columns.size() + column]; time != Problem::kNever) {
        columns[column].here += time;
        columns[column].at_best += shortest;
      }
  }
  for (const Work& work : columns) most = std::max(most, work.at_best);
  std::vector<DeviceId> worthy, all;
  for (const DeviceId device : problem.devices()) {
    all.push_back(device);
    const Work& work = columns[problem.column(device)];
    const bool fast = work.here.count / 4 <= work.at_best.count;
    if (fast && work.at_best.count >= most.count / 2) worthy.push_back(device);
  }
  return worthy.empty() ? all : worthy;
}

Nanoseconds layer_time(const Problem& problem, const std::vector<OpId>& ops, DeviceId device) {
  Nanoseconds sum{0};
  for (const OpId op : ops) sum += problem.can_run(op, device) ? problem.duration(op, device) : problem.shortest(op);
  return sum;
}

LayerPlacement place_layers(const Problem& problem, const Layers& layers, const LayerDevices& devices,
                            MemoryLedger memory) {
  const auto able = group_devices(problem);
  LayerPlacement draft{Placement(problem.op_count()), Bytes{0}};
  for (const GroupId group : problem.groups()) {
    DeviceId device = devices[layers.of[problem.group_ops(group).front()]];
    if (!std::ranges::binary_search(able[group], device)) device = fastest_device(problem, group, able[group]);
    memory.take(group, device);
    for (const OpId op : problem.group_ops(group)) draft.placement[op] = device;
  }
  draft.excess = memory.total_excess();
  return draft;
}

}  // namespace trainyard
