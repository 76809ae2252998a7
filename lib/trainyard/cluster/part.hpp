#pragma once

#include <span>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// The cluster restricted to these devices, in their order. The other devices become switches: they run nothing, but
/// still pass on traffic between links. In a fabric the devices, one or more, must be consecutive: devices within one
/// host that is not a torus, or whole hosts, whose routes then stay what they were: hosts of one leaf; of one pod, from
/// the first of a leaf on; or from the first of a pod on. Otherwise throws InputError ("part").
Cluster part_of(const Cluster& cluster, std::span<const DeviceId> devices);

}  // namespace trainyard
