#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

using ClusterId = Id<struct ClusterTag>;

/// How clusters of ops are mapped to devices. With load(d) the time of the clusters assigned to device d, and t(c, d)
/// the time of cluster c there. Ties go to the lower device.
enum class ClusterMapping : std::uint8_t {
  load,    // by descending time, each to the device of least load(d) + t(c, d): longest processing time first
  cut,     // as `load`, but minimizes load(d) + t(c, d) + transfer times to and from clusters elsewhere
  finish,  // when its first op is taken, to the device on which the cluster would end first: behind all ops on the
           // device and not before that op's inputs have arrived
};

/// The colocation groups of each cluster, by ascending id; a group is in the cluster of its first op.
CompressedRows<ClusterId, GroupId> groups_by_cluster(const Problem& problem, std::size_t count,
                                                     const IdMap<OpId, ClusterId>& clusters);

/// Places all ops in the plan, in the order of `taken`, with every cluster on one device. A cluster that no device can
/// run as a whole, or has room for, is split into its colocation groups, each placed where its first op would finish
/// first.
void map_clusters(const Problem& problem, const CompressedRows<ClusterId, GroupId>& clusters,
                  const std::vector<OpId>& taken, ClusterMapping mapping, AnalyticPlan& plan);

}  // namespace trainyard
