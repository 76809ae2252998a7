#pragma once

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// Of each colocation group the devices that can run all of its ops, by ascending id; never empty (Problem checks it).
CompressedRows<GroupId, DeviceId> group_devices(const Problem& problem);

/// How long the group's ops take on the device one after the other.
Nanoseconds group_time(const Problem& problem, GroupId group, DeviceId device);

/// The device of `able` on which the group takes the least time; ties go to the lower id.
DeviceId fastest_device(const Problem& problem, GroupId group, std::span<const DeviceId> able);

}  // namespace trainyard
