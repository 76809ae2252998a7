#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Improved predict priority task scheduling (IPPTS): with the table PCM of optimistic_costs.hpp,
///
///     priority(i) = mean of PCM(i, p) over devices x number of ops that must follow i
///     order       = of the ops whose predecessors have been taken, always that of the highest priority
///     device      = that with the least EFT(i, p) + PCM(i, p) - p(i, p), the "looking-ahead" finish,
///
/// where EFT(i, p) is the earliest finish of op i on device p, and p(i, p) its duration there. All ties go to the lower
/// id. Colocation groups, device kinds and memory: as in analytic_plan.hpp.
///
/// H. Djigal, J. Feng, J. Lu, J. Ge: IPPTS: an efficient algorithm for scientific workflow scheduling in heterogeneous
/// computing systems. IEEE TPDS 32(5), 2021.
Schedule ippts(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
