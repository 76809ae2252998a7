#include "trainyard/place/kit/groups.hpp"

#include <algorithm>
#include <vector>

namespace trainyard {

CompressedRows<GroupId, DeviceId> group_devices(const Problem& problem) {
  CompressedRows<GroupId, DeviceId> rows;
  std::vector<DeviceId> able;
  for (const GroupId group : problem.groups()) {
    able.clear();
    for (const DeviceId device : problem.devices())
      if (problem.can_run(group, device)) able.push_back(device);
    rows.append_row(able);
  }
  return rows;
}

Nanoseconds group_time(const Problem& problem, GroupId group, DeviceId device) {
  Nanoseconds sum{0};
  for (const OpId op : problem.group_ops(group)) sum += problem.duration(op, device);
  return sum;
}

DeviceId fastest_device(const Problem& problem, GroupId group, std::span<const DeviceId> able) {
  return *std::ranges::min_element(able, {}, [&](DeviceId device) { return group_time(problem, group, device); });
}

}  // namespace trainyard
