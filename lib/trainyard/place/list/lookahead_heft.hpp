#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// HEFT that looks one step ahead: ops by descending upward rank; op i is tried on each device, and there each op that
/// must follow it, by descending rank, where it would then finish first. The op goes to the device with the least
///
///     max over what must follow j of EFT(j | i there, and those before j)
///
/// (an exit: the least EFT of its own); ties go to the earlier finish of i, then to the lower device. What else j waits
/// for and has no device yet counts as there. O(devices^2) for each
/// edge i -> j and each op that j waits for.
///
/// Ours: the trial knows of kinds and of colocation groups, not of memory; the devices that i is tried on do (see
/// analytic_plan.hpp).
///
/// L. F. Bittencourt, R. Sakellariou, E. R. M. Madeira: DAG scheduling using a lookahead variant of the heterogeneous
/// earliest finish time algorithm. PDP 2010.
Schedule lookahead_heft(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
