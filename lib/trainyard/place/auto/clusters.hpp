#pragma once

#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

using ClusterId = Id<struct ClusterTag>;

/// Partition of the colocation groups into clusters, each of which a search may move as one.
struct Clusters {
  IdMap<OpId, ClusterId> of;
  CompressedRows<ClusterId, OpId> ops;          // by ascending id
  CompressedRows<ClusterId, DeviceId> devices;  // able to run all ops of the cluster; may be empty

  std::size_t size() const { return ops.rows(); }
};

/// Partitions of several sizes, from single colocation groups up; the finest first, no two alike.
///
/// Coarser partitions are made by taking tensors from the largest to the smallest (ties: lower id). The clusters of
/// producer and consumer are joined if their time together (shortest durations) is at most a share of all work: 1/64,
/// 1/16 and 1/4 of a device's share. Clusters that stay apart send each other little. The layers of the network, and
/// its blocks, are partitions too: with one move a search can carry a layer with its backward pass to another device,
/// which single moves reach only through worse placements.
std::vector<Clusters> cluster_levels(const Problem& problem);

}  // namespace trainyard
