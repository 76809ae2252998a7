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
/// SCOTCH's mapping onto a complete graph of the devices, weighted by their speeds; groups with one device only are
/// fixed there. SCOTCH knows nothing of other restrictions, nor of memory: settle_groups() has to follow. One thread,
/// its deterministic mode. Throws MissingError where the build has no SCOTCH.
/// F. Pellegrini, J. Roman: SCOTCH: a software package for static mapping by dual recursive bipartitioning of process
/// and architecture graphs, HPCN 1996.
GroupDevices partition_by_scotch(const Problem& problem, const GroupGraph& graph, const PartitionerOptions& options);

bool has_metis();
/// METIS's partition into one part for each device, their shares by speed; memory as a second constraint where it may
/// bind. Of restrictions METIS knows nothing: settle_groups() has to follow. Fewer than four groups for each device go
/// to bisect_devices(). Throws MissingError where the build has no METIS.
/// G. Karypis, V. Kumar: A fast and high quality multilevel scheme for partitioning irregular graphs, SIAM J. Sci.
/// Comput. 20(1), 1998.
GroupDevices partition_by_metis(const Problem& problem, const GroupGraph& graph, const PartitionerOptions& options);

/// Weights for libraries that count in 32 bits: whole numbers in proportion to the values, at least 1, that add up to
/// no more than 2^30.
std::vector<std::int32_t> scaled_weights(const std::vector<std::int64_t>& values);

/// Each group's time where it takes the least; 0 for one that can run on one device only.
std::vector<std::int64_t> free_times(const GroupGraph& graph, const Problem& problem);

/// The shares of free_times() with which all devices would be done at once, beside what can run on them alone; they add
/// up to 1, and none is 0.
std::vector<double> device_shares(const GroupGraph& graph, const Problem& problem);

}  // namespace trainyard
