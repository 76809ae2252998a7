#pragma once

#include <span>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// The cluster restricted to these devices, in their order. The other devices become switches: they run nothing, but
/// still pass on traffic between links. In a fabric the devices must be consecutive: whole hosts, or devices within one
/// host that is not a torus. Otherwise throws InputError ("part").
Cluster part_of(const Cluster& cluster, std::span<const DeviceId> devices);

}  // namespace trainyard
