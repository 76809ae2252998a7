#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Heterogeneous earliest finish time (HEFT): ops by descending upward rank, each to the device on which it would
/// finish first. Means and ties: see ranks.hpp; colocation groups and memory: see analytic_plan.hpp.
/// H. Topcuoglu, S. Hariri, M. Wu: Performance-effective and low-complexity task scheduling for heterogeneous
/// computing. IEEE TPDS 13(3), 2002.
Schedule heft(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
