#pragma once

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Standard deviation based task scheduling: HEFT with another rank. With sigma(i) the standard deviation of op i's
/// durations over the n devices that can run it (divided by n), and c the mean transfer time of the tensor from i to j,
///
///     rank(i) = sigma(i) + max over what must follow j of (c + rank(j))
///
/// ops by descending rank, each to the device on which it would finish first. An op whose device matters much goes
/// early; where devices are alike, transfers alone count. Ties go to the earlier op in the graph's topological order,
/// then to the lower device.
///
/// Left out: the paper runs a second copy of the entry op wherever that is sooner than its transfer. Here an op runs
/// once.
///
/// E. U. Munir, S. Mohsin, A. Hussain, M. W. Nisar, S. Ali: SDBATS: a novel algorithm for task scheduling in
/// heterogeneous computing systems. IPDPS Workshops 2013.
Schedule sdbats(const Problem& problem, const ListOptions& options = {});

}  // namespace trainyard
