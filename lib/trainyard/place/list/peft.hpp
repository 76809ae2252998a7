#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Predict earliest finish time (PEFT): with the table OCT of optimistic_costs.hpp, and EFT(i, p) the earliest finish
/// of op i on device p,
///
///     order  = of the ops whose predecessors have been taken, always that with the highest mean of OCT over devices
///     device = that with the least EFT(i, p) + OCT(i, p)
///
/// All ties go to the lower id. The table ignores colocation groups and memory, which the paper does not treat; the
/// choice of the device respects them (see analytic_plan.hpp).
///
/// H. Arabnejad, J. G. Barbosa: List scheduling algorithm for heterogeneous systems by an optimistic cost table. IEEE
/// TPDS 25(3), 2014.
Schedule peft(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
