#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Predict earliest finish time: with p(j, q) the duration of op j on device q and c the mean transfer time of the
/// tensor from i to j (see ranks.hpp),
///
///     OCT(i, p) = max over what must follow j of min over q of (OCT(j, q) + p(j, q) + [q != p] c),   0 at an exit
///     order     = of the ops whose predecessors have been taken, always that with the highest mean of OCT over devices
///     device    = that with the least EFT(i, p) + OCT(i, p)
///
/// All ties go to the lower id. The table is kept by class of devices (Problem::column): O(edges x classes) to fill.
///
/// Ours, where the paper says nothing: q runs over the devices that can run j; the table does not know of colocation
/// groups and memory, the choice of the device does (see analytic_plan.hpp).
///
/// H. Arabnejad, J. G. Barbosa: List scheduling algorithm for heterogeneous systems by an optimistic cost table. IEEE
/// TPDS 25(3), 2014.
Schedule peft(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
