#pragma once

#include <functional>

#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/list/cluster_mapping.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Result of dominant sequence clustering: a cluster of each op (numbered by their first ops), and when the op starts
/// if every cluster has a device of its own, in the scale of the means.
struct DscClusters {
  IdMap<OpId, ClusterId> of;
  std::size_t count = 0;
  IdMap<OpId, ScaledTime> start;
  ScaledTime makespan = 0;
};

/// Dominant sequence clustering, on as many devices as one likes, all alike, with mean times w(i) and c(i, j):
///
///     tlevel(i)   = the longest way from an entry to i, transfers within a cluster taking no time, ops of a cluster
///                   one after the other: its start
///     blevel(i)   = w(i) + max over successors j of (c(i, j) + blevel(j)), as at the beginning
///     priority(i) = tlevel(i) + blevel(i); of an op that is only partly free (some of its predecessors have been
///                   taken, not all), with the tlevel that those give
///
/// Always the free op x of the highest priority is taken. It goes behind the cluster of the predecessor whose tensor
/// arrives last, if it starts sooner there than alone; further predecessors, by descending arrival, are moved into that
/// cluster with it as long as x is all that follows them and x starts sooner still (how many is found by bisection).
/// Where a partly free op y has a higher priority than x, x may not go behind the cluster that y's start could be
/// reduced by (the paper's DSRW rule). Ties go to the lower id. An op of a colocation
/// group goes behind the cluster that the first of its group is in (ours: the paper has no groups). O((V + E) log V)
/// but for partly free ops of many predecessors.
///
/// T. Yang, A. Gerasoulis: DSC: scheduling parallel tasks on an unbounded number of processors. IEEE TPDS 5(9), 1994.
DscClusters dsc_clusters(const Problem& problem, const MeanCosts& means, Checkpoint checkpoint = Checkpoint{});

struct DscOptions {
  ClusterMapping mapping = ClusterMapping::finish;
  bool insertion = true;
  PlanOrder order = PlanOrder::best;
  std::function<bool()> stop = {};  // as ListOptions::stop
};

/// Clusters by dsc_clusters(), to devices by map_clusters(), ops by descending blevel.
Schedule dsc(const Problem& problem, const DscOptions& options = {});

}  // namespace trainyard
