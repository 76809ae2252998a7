#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct MTopoOptions {
  /// Each device gets its share of the memory; else each is filled to its capacity before the next.
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
/// The ops are walked in this order. The first op of a group puts all of it on the current device while used + need <=
/// share (or the capacity, where devices are filled); otherwise the next device becomes the current one, and none is
/// taken up again. There is no plan: the devices run what is ready, first come, first served.
///
/// Ours, where the paper says nothing: a group also has to have room by the MemoryLedger, since the share may be beyond
/// a capacity; one that the current device cannot run goes to the next that can; what is left when the last device is
/// full goes where there is room, or the least excess, and there to the device with the least in use (ties: the lower
/// id).
///
/// `literal` is the authors' program: parameters and state are thought to be part of the outputs, so need(i) =
/// workspace + outputs; where the graph has colocation groups, a group goes on the device while used + its largest
/// workspace + its parameters and state is *below* the share (or does not exceed the capacity), whatever its outputs;
/// no share is held against a capacity.
///
/// B. Jeon et al.: Baechi: fast device placement of machine learning graphs. ACM SoCC 2020.
Schedule m_topo(const Problem& problem, const MTopoOptions& options = {});

}  // namespace trainyard
