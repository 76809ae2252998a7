#pragma once

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// The devices that can run all ops of each colocation group, by ascending id; never empty (Problem checks it).
CompressedRows<GroupId, DeviceId> group_devices(const Problem& problem);

/// Time of the group's ops on the device, one after the other.
Nanoseconds group_time(const Problem& problem, GroupId group, DeviceId device);

/// The device of `able` on which the group takes the least time; ties go to the lower id.
DeviceId fastest_device(const Problem& problem, GroupId group, std::span<const DeviceId> able);

}  // namespace trainyard
