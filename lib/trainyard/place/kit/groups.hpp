#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// For each colocation group, the devices that can run all its ops, by ascending id; never empty (Problem checks it).
/// Groups with the same devices share a list, so there are few lists even for many groups on many devices.
class AbleDevices {
 public:
  explicit AbleDevices(const Problem& problem);

  std::span<const DeviceId> operator[](GroupId group) const { return lists_[list_[group]]; }
  /// Index of the group's list; lists are numbered by the first group that has them.
  std::uint32_t list(GroupId group) const { return list_[group]; }

 private:
  IdMap<GroupId, std::uint32_t> list_;
  std::vector<std::vector<DeviceId>> lists_;
};
AbleDevices group_devices(const Problem& problem);

/// For each op, a number for the set of devices that can run its whole colocation group.
IdMap<OpId, std::uint32_t> device_sets(const Problem& problem);

/// For each class of devices (Problem::column), the total time in ns of the ops that every device can run.
std::vector<double> common_times(const Problem& problem);

/// Total time of the group's ops on the device.
Nanoseconds group_time(const Problem& problem, GroupId group, DeviceId device);

/// The device of `able` on which the group takes the least time; ties go to the lower id. Throws InputError ("size") if
/// `able` is empty.
DeviceId fastest_device(const Problem& problem, GroupId group, std::span<const DeviceId> able);

}  // namespace trainyard
