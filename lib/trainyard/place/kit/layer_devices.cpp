#include "trainyard/place/kit/layer_devices.hpp"

#include <algorithm>

#include "trainyard/place/kit/groups.hpp"

namespace trainyard {

std::vector<DeviceId> worthy_devices(const Problem& problem) {
  struct Work {
    Nanoseconds here, at_best;  // of the ops that the device can run: their time on it, and their shortest anywhere
  };
  IdMap<DeviceId, Work> work(problem.device_count());
  Nanoseconds most{0};
  for (const DeviceId device : problem.devices()) {
    for (const OpId op : problem.ops())
      if (problem.can_run(op, device)) {
        work[device].here += problem.duration(op, device);
        work[device].at_best += problem.shortest(op);
      }
    most = std::max(most, work[device].at_best);
  }
  std::vector<DeviceId> worthy, all;
  for (const DeviceId device : problem.devices()) {
    all.push_back(device);
    const bool fast = work[device].here.count / 4 <= work[device].at_best.count;
    if (fast && work[device].at_best.count >= most.count / 2) worthy.push_back(device);
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
