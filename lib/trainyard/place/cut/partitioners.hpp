#pragma once

#include <cstdint>

#include "trainyard/place/cut/group_graph.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

struct PartitionerOptions {
  double imbalance = 0.05;
  bool recursive = true;  // METIS: by recursive bisection, else k-way
  std::uint64_t seed = 1;
};

bool has_scotch();
/// SCOTCH's mapping onto a complete graph of the devices, weighted by their speeds. Groups with only one device are
/// fixed there. SCOTCH knows no other restrictions and no memory: settle_groups() has to follow. It runs in its
/// deterministic mode, on one thread. Throws MissingError if the build has no SCOTCH.
/// F. Pellegrini, J. Roman: SCOTCH: a software package for static mapping by dual recursive bipartitioning of process
/// and architecture graphs, HPCN 1996.
GroupDevices partition_by_scotch(const Problem& problem, const GroupGraph& graph, const PartitionerOptions& options);

bool has_metis();
/// METIS's partition into one part for each device, with shares by speed, and memory as a second constraint if it may
/// bind. METIS knows no restrictions: settle_groups() has to follow. Fewer than four groups for each device go to
/// bisect_devices(). Throws MissingError if the build has no METIS.
/// G. Karypis, V. Kumar: A fast and high quality multilevel scheme for partitioning irregular graphs, SIAM J. Sci.
/// Comput. 20(1), 1998.
GroupDevices partition_by_metis(const Problem& problem, const GroupGraph& graph, const PartitionerOptions& options);

/// Weights for libraries that count in 32 bits: integers in proportion to the values, at least 1, that add up to at
/// most 2^30.
std::vector<std::int32_t> scaled_weights(const std::vector<std::int64_t>& values);

/// Time of each group on its fastest device; 0 if only one device can run it.
std::vector<std::int64_t> free_times(const GroupGraph& graph, const Problem& problem);

/// Shares of free_times() with which all devices would finish at once, given the groups that only they can run. The
/// shares add up to 1, and none is 0.
std::vector<double> device_shares(const GroupGraph& graph, const Problem& problem);

}  // namespace trainyard
