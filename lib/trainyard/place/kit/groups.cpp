#include "trainyard/place/kit/groups.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "trainyard/core/error.hpp"

namespace trainyard {

AbleDevices::AbleDevices(const Problem& problem) : list_(problem.group_count()) {
  const std::size_t columns = problem.column_count();
  std::map<std::vector<bool>, std::uint32_t> known;  // list by the columns that can run a group
  std::vector<bool> able(columns);
  for (const GroupId group : problem.groups()) {
    able.assign(columns, true);
    for (const OpId op : problem.group_ops(group)) {
      const auto row = problem.durations().subspan(op.index() * columns, columns);
      for (std::size_t column = 0; column < columns; ++column)
        if (row[column] == Problem::kNever) able[column] = false;
    }
    const auto [at, added] = known.try_emplace(able, static_cast<std::uint32_t>(lists_.size()));
    list_[group] = at->second;
    if (!added) continue;
    lists_.emplace_back();
    for (const DeviceId device : problem.devices())
      if (able[problem.column(device)]) lists_.back().push_back(device);
  }
}

AbleDevices group_devices(const Problem& problem) { return AbleDevices{problem}; }

IdMap<OpId, std::uint32_t> device_sets(const Problem& problem) {
  IdMap<OpId, std::uint32_t> sets(problem.op_count());
  const AbleDevices able{problem};
  for (const OpId op : problem.ops()) sets[op] = able.list(problem.group(op));
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
  if (able.empty())
    refuse("size", "the list of devices to choose the fastest of is empty", "give the devices of group_devices()");
  return *std::ranges::min_element(able, {}, [&](DeviceId device) { return group_time(problem, group, device); });
}

}  // namespace trainyard
