#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// The devices that can run all ops of each colocation group, by ascending id; never empty (Problem checks it). Groups
/// that run on the same ones share a list: of many groups on many devices there are few.
class AbleDevices {
 public:
  explicit AbleDevices(const Problem& problem);

  std::span<const DeviceId> operator[](GroupId group) const { return lists_[list_[group]]; }
  /// The number of the group's list, from 0 in the order of their first groups.
  std::uint32_t list(GroupId group) const { return list_[group]; }

 private:
  IdMap<GroupId, std::uint32_t> list_;
  std::vector<std::vector<DeviceId>> lists_;
};
AbleDevices group_devices(const Problem& problem);

/// A number for each set of devices that can run a whole colocation group, by op.
IdMap<OpId, std::uint32_t> device_sets(const Problem& problem);

/// Time of all ops that every device can run, one after the other, on the devices of each column.
std::vector<double> common_times(const Problem& problem);

/// Time of the group's ops on the device, one after the other.
Nanoseconds group_time(const Problem& problem, GroupId group, DeviceId device);

/// The device of `able` on which the group takes the least time; ties go to the lower id. Throws InputError ("size")
/// where there is none.
DeviceId fastest_device(const Problem& problem, GroupId group, std::span<const DeviceId> able);

}  // namespace trainyard
