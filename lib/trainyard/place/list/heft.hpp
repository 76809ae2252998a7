#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Heterogeneous earliest finish time: ops by descending upward rank, each to the device on which it would finish first
/// (see ranks.hpp and analytic_plan.hpp for the means, the ties, the colocation groups and memory).
/// H. Topcuoglu, S. Hariri, M. Wu: Performance-effective and low-complexity task scheduling for heterogeneous
/// computing. IEEE TPDS 13(3), 2002.
Schedule heft(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
