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

/// The best paths between vertices.
///
/// Best is: least total latency, then largest bottleneck bandwidth, then fewest links, then lowest link indices in path
/// order. The four criteria do not compose under one shortest-path search (a prefix with a wider bottleneck but more
/// links can lose in the end), so they are settled one after the other: Dijkstra for latency; the widest path over the
/// arcs that lie on some path of least latency; for each width breadth first over those wide enough, vertices of a
/// layer in the order of the links that lead to them.
class PathFinder {
 public:
  /// `arcs` must outlive the finder.
  PathFinder(const std::vector<Arc>& arcs, std::size_t vertices);

  /// The arcs of the best path from one vertex to each of the first `targets` vertices; empty where there is none.
  std::vector<std::vector<std::size_t>> paths(std::size_t source, std::size_t targets) const;

 private:
  using Adjacency = std::vector<std::vector<std::size_t>>;  // vertex -> arcs

  std::vector<std::int64_t> least_latencies(std::size_t source) const;
  Adjacency tight_arcs(const std::vector<std::int64_t>& latency) const;
  std::vector<double> widest(const Adjacency& tight, std::size_t source) const;
  std::vector<std::size_t> last_arcs(const Adjacency& tight, std::size_t source, double width) const;

  const std::vector<Arc>& arcs_;
  Adjacency leaving_;  // by ascending latency, so that what cannot improve on any path is passed over at once
};

}  // namespace trainyard::detail
