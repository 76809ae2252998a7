#pragma once

#include <functional>

#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/list/cluster_mapping.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Result of dominant sequence clustering: the cluster of each op (numbered by their first ops), and the start of each
/// op if every cluster has a device of its own. Times are in the scale of the means.
struct DscClusters {
  IdMap<OpId, ClusterId> of;
  std::size_t count = 0;
  IdMap<OpId, ScaledTime> start;
  ScaledTime makespan = 0;
};

/// Dominant sequence clustering (DSC), for an unlimited number of identical devices, with mean times w(i) of op i and
/// c(i, j) of the transfer from i to j:
///
///     tlevel(i)   = the longest path from an entry to i, with no time for transfers within a cluster, and the ops of a
///                   cluster one after the other: the start of i
///     blevel(i)   = w(i) + max over successors j of (c(i, j) + blevel(j)), before any clustering
///     priority(i) = tlevel(i) + blevel(i); for an op that is partly free (some of its predecessors have been taken,
///                   not all), with the tlevel by the predecessors taken
///
/// The free op x with the highest priority is taken next. It is appended to the cluster of the predecessor whose tensor
/// arrives last, if it starts sooner there than alone. Further predecessors, by descending arrival, move into that
/// cluster with it while x is their only successor and x starts sooner still (how many is found by bisection). If a
/// partly free op y has a higher priority than x, x may not join a cluster that could reduce y's start (the paper's
/// DSRW rule). Ties go to the lower id. An op of a colocation group joins the cluster of the group's first op (the
/// paper has no groups). O((V + E) log V), except for partly free ops with many predecessors.
///
/// T. Yang, A. Gerasoulis: DSC: scheduling parallel tasks on an unbounded number of processors. IEEE TPDS 5(9), 1994.
DscClusters dsc_clusters(const Problem& problem, const MeanCosts& means, Checkpoint checkpoint = Checkpoint{});

struct DscOptions {
  ClusterMapping mapping = ClusterMapping::finish;
  bool insertion = true;
  PlanOrder order = PlanOrder::best;
  std::function<bool()> stop = {};  // as ListOptions::stop
};

/// Schedule of the clusters of dsc_clusters(), mapped to devices by map_clusters(), with ops by descending blevel.
Schedule dsc(const Problem& problem, const DscOptions& options = {});

}  // namespace trainyard
