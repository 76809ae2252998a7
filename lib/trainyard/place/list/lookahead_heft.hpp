#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// HEFT with one step of lookahead: ops by descending upward rank. Op i is tried on each device, and there each op j
/// that must follow it is placed, by descending rank, where it would then finish first. Op i goes to the device with
/// the least
///
///     max over j of EFT(j | i there, and the ops before j),
///
/// where EFT is the earliest finish time (for an exit: its own EFT). Ties go to the earlier finish of i, then to the
/// lower device. Other predecessors of j that have no device yet are ignored. O(devices^2) for each edge i -> j and
/// each op that j waits for.
///
/// The trial respects device kinds and colocation groups, but ignores memory; the devices on which i is tried respect
/// memory too (see analytic_plan.hpp).
///
/// L. F. Bittencourt, R. Sakellariou, E. R. M. Madeira: DAG scheduling using a lookahead variant of the heterogeneous
/// earliest finish time algorithm. PDP 2010.
Schedule lookahead_heft(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
