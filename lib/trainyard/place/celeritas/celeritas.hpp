#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/place/kit/list_schedule.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A topological order that goes deep along critical paths. The next op is the one of the highest rank (upward_ranks)
/// among those that the last op has freed; if there is none, among those that an earlier op has freed, the latest
/// first. Ties go to the lower id.
std::vector<OpId> critical_depth_first(const Problem& problem, const IdMap<OpId, ScaledTime>& rank);

struct CeleritasOptions {
  std::uint64_t clusters = 16;  // per device; a cluster is at most 1 / (clusters x devices) of all work
  ListOptions list = {};
};

/// Celeritas: cuts the ops in critical_depth_first() order into clusters by sequential_partition(), with the fewest
/// bytes between clusters. Then, as in HEFT, takes the ops by descending upward rank. The first op of a cluster brings
/// the whole cluster to the device with room for it on which it ends first (ClusterMapping::finish).
///
/// Choices where the paper's numbers are not known: the size of a cluster is limited in time and by the same share of
/// all memories together, and colocation groups go with the cluster of their first op. Left out are the measurement of
/// ops under a placement that is safe for memory (times are given here), and the later moves of clusters off congested
/// links.
///
/// H. Xu, Y. Liao, H. Xie, P. Zhou: Celeritas: fast optimizer for large dataflow graphs. arXiv 2208.00184, 2022.
Schedule celeritas(const Problem& problem, const CeleritasOptions& options = {});

}  // namespace trainyard
