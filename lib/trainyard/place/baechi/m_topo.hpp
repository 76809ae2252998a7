#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct MTopoOptions {
  /// Each device gets its share of the memory. Otherwise each is filled to its capacity before the next.
  bool uniform = true;
  /// Whether memory counts as in the authors' program (see m_topo).
  bool literal = false;
};

/// Memory-constrained topological placement:
///
///     order   = first come, first served: ops without inputs by id, then each when all that it depends on was taken
///     need(i) = workspace + outputs + parameters and state of op i; of a colocation group, the sum
///     share   = floor(sum of all needs / number of devices) + the largest need
///
/// Ops are taken in this order. The first op of a group puts the whole group on the current device if used + need <=
/// share (or the capacity, if devices are filled). Otherwise the next device becomes the current one; no device becomes
/// current twice. There is no plan: the devices run ready ops first come, first served.
///
/// Additions to the paper: a group also needs room by the MemoryLedger, since the share may exceed a capacity. A group
/// that the current device cannot run goes to the next device that can. Groups left when the last device is full go to
/// devices with room, or else the least excess, and there to the device with the least in use (ties: the lower id).
///
/// `literal` follows the authors' program. Parameters and state count as part of the outputs, so need(i) = workspace +
/// outputs. If the graph has colocation groups, a group goes on the device if used + its largest workspace + its
/// parameters and state is *below* the share (or does not exceed the capacity), whatever its outputs. Shares are not
/// compared with capacities.
///
/// B. Jeon et al.: Baechi: fast device placement of machine learning graphs. ACM SoCC 2020.
Schedule m_topo(const Problem& problem, const MTopoOptions& options = {});

}  // namespace trainyard
