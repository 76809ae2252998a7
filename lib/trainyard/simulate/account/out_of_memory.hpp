#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::detail {

/// Sets out_of_memory of every device whose peak exceeds its capacity, from the ops, transfers and peaks of the
/// timeline.
void diagnose_memory(const Problem& problem, const Placement& placement, Timeline& timeline);

}  // namespace trainyard::detail
