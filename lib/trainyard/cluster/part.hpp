#pragma once

#include <span>

#include "trainyard/cluster/cluster.hpp"

namespace trainyard {

/// The cluster of these devices alone, in their order, on the links that they have: the others become switches, which
/// run nothing and pass on what they passed on before. In a fabric the devices must be whole hosts, one after the
/// other, or the first of a host without a torus. Throws InputError ("part") where they are not.
Cluster part_of(const Cluster& cluster, std::span<const DeviceId> devices);

}  // namespace trainyard
