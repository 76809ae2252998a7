#pragma once

#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

using ClusterId = Id<struct ClusterTag>;

/// Colocation groups gathered into clusters, each of which a search may move as one.
struct Clusters {
  IdMap<OpId, ClusterId> of;
  CompressedRows<ClusterId, OpId> ops;          // by ascending id
  CompressedRows<ClusterId, DeviceId> devices;  // those that can run all of them; may be empty

  std::size_t size() const { return ops.rows(); }
};

/// Clusters of several sizes, from the colocation groups up; the finest first, no two alike.
///
/// Coarser ones are made by taking tensors from the largest to the smallest (ties: lower id), and joining the clusters
/// of producer and consumer where their time together (shortest durations) is no more than a share of all work: 1/64,
/// 1/16 and 1/4 of a device's share. What is left apart has little to send. Beside them the layers of the network,
/// and its blocks. With one move a search may so carry a layer with its backward pass from one device to another, which
/// no sequence of single moves does without passing through placements that are worse.
std::vector<Clusters> cluster_levels(const Problem& problem);

}  // namespace trainyard
