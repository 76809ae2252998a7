#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A topological order that goes deep along critical paths: always one of the ops that the last op taken has made free,
/// the one of the highest upward rank; where it has made none free, one of those before it. Ties go to the lower id.
std::vector<OpId> critical_depth_first(const Problem& problem);

struct CeleritasOptions {
  std::uint64_t clusters = 16;  // for each device: what a cluster may be of all work is 1 / (clusters x devices)
  ListOptions list = {};
};

/// Celeritas: ops in critical_depth_first() order, cut into clusters by sequential_partition() so that the fewest bytes
/// cross; then, as in HEFT, ops by descending upward rank, and with the first op of a cluster all of it to the device
/// on which it ends first and which has room for it (ClusterMapping::finish).
///
/// Ours, where we do not have the paper's numbers: how large a cluster may be, in time and as the same share of the
/// memories together; that colocation groups go with the cluster of their first op. Left out: measuring ops under a
/// placement that is safe for memory (our times are given), and moving clusters off congested links afterwards.
///
/// H. Xu, Y. Liao, H. Xie, P. Zhou: Celeritas: fast optimizer for large dataflow graphs. arXiv 2208.00184, 2022.
Schedule celeritas(const Problem& problem, const CeleritasOptions& options = {});

}  // namespace trainyard
