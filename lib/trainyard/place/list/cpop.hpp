#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Critical path on a processor (CPOP): with rank_u and rank_d the upward and downward ranks of ranks.hpp,
///
///     priority(i)     = rank_u(i) + rank_d(i)
///     critical path   = from the entry op of the highest priority to an exit, always to the successor of that same
///                       priority
///     critical device = the device on which the path's ops take the least time together
///     order           = of the ops whose predecessors have been taken, always that of the highest priority
///
/// Ops of the critical path go to the critical device, in the earliest gap there; others where they would finish first.
/// All ties go to the lower id.
///
/// The paper leaves three cases open. Among devices, one that can run more of the path's ops is preferred to a faster
/// one. The colocation group of an op of the path goes to the critical device too. An op of the path that the critical
/// device cannot run, or has no room for, goes where it would finish first.
///
/// H. Topcuoglu, S. Hariri, M. Wu: Performance-effective and low-complexity task scheduling for heterogeneous
/// computing. IEEE TPDS 13(3), 2002.
Schedule cpop(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
