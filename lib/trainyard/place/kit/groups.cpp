#include "trainyard/place/kit/groups.hpp"

#include <algorithm>
#include <map>
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

IdMap<OpId, std::uint32_t> device_sets(const Problem& problem) {
  IdMap<OpId, std::uint32_t> sets(problem.op_count());
  std::map<std::vector<DeviceId>, std::uint32_t> number;
  const auto able = group_devices(problem);
  for (const GroupId group : problem.groups()) {
    const std::vector<DeviceId> devices(able[group].begin(), able[group].end());
    const std::uint32_t set = number.emplace(devices, static_cast<std::uint32_t>(number.size())).first->second;
    for (const OpId op : problem.group_ops(group)) sets[op] = set;
  }
  return sets;
}

std::vector<double> common_times(const Problem& problem) {
  std::vector<double> times(problem.column_count(), 0);
  for (const OpId op : problem.ops()) {
    const auto row = problem.durations().subspan(op.index() * times.size(), times.size());
    if (std::ranges::find(row, Problem::kNever) != row.end()) continue;
    for (std::size_t column = 0; column < times.size(); ++column)
      times[column] += static_cast<double>(row[column].count);
  }
  return times;
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
