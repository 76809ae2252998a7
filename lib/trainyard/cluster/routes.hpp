#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard::detail {

/// One direction in which a link can be travelled. Vertices are devices first, then switches.
struct Arc {
  std::size_t from, to;
  std::size_t link;  // ties are broken by it
  Nanoseconds latency;
  BytesPerSecond bandwidth;
};

/// The arcs of the best path from one vertex to each of the first `targets` vertices; empty where there is none.
///
/// Best is: least total latency, then largest bottleneck bandwidth, then fewest links, then lowest link indices in path
/// order. The four criteria do not compose under one shortest-path search (a prefix with a wider bottleneck but more
/// links can lose in the end), so they are settled one after the other: Dijkstra for latency; the widest path over the
/// arcs that lie on some path of least latency; breadth first over those wide enough; then the lowest links greedily.
std::vector<std::vector<std::size_t>> best_paths(const std::vector<Arc>& arcs, std::size_t vertices, std::size_t source,
                                                 std::size_t targets);

}  // namespace trainyard::detail
