#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Standard deviation based task scheduling (SDBATS): HEFT with another rank. With sigma(i) the standard deviation of
/// op i's durations over the n devices that can run it (divided by n), c the mean transfer time of the tensor from i to
/// j, and j over the ops that must follow i,
///
///     rank(i) = sigma(i) + max over j of (c + rank(j)).
///
/// Ops go by descending rank, each to the device on which it would finish first. An op whose duration varies much
/// between devices goes early; on identical devices only transfers count. Ties go to the earlier op in the graph's
/// topological order, then to the lower device.
///
/// The paper also runs a second copy of the entry op wherever that is sooner than its transfer. That is left out: an op
/// runs once.
///
/// E. U. Munir, S. Mohsin, A. Hussain, M. W. Nisar, S. Ali: SDBATS: a novel algorithm for task scheduling in
/// heterogeneous computing systems. IPDPS Workshops 2013.
Schedule sdbats(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
