#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/quantity.hpp"

namespace trainyard::detail {

/// One direction of a link. Vertices are devices first, then switches.
struct Arc {
  std::size_t from, to;
  std::size_t link;  // breaks ties
  Nanoseconds latency;
  BytesPerSecond bandwidth;
};

/// Finds the best paths between vertices.
///
/// The best path has the least total latency, then the largest bottleneck bandwidth, then the fewest links, then the
/// lowest link indices in path order. One shortest-path search cannot combine the four criteria: a prefix with a wider
/// bottleneck but more links can lose in the end. So they are applied one after another: Dijkstra for latency; the
/// widest path over the arcs on paths of least latency; for each width a breadth-first search over the arcs that are
/// wide enough, with the vertices of a layer in the order of the links that lead to them.
/// layer in the order of the links that lead to them.
class PathFinder {
 public:
  /// `arcs` must outlive the finder.
  PathFinder(const std::vector<Arc>& arcs, std::size_t vertices);

  /// The arcs of the best path from `source` to each of the first `targets` vertices; empty if there is no path.
  std::vector<std::vector<std::size_t>> paths(std::size_t source, std::size_t targets) const;

 private:
  using Adjacency = std::vector<std::vector<std::size_t>>;  // vertex -> arcs

  std::vector<std::int64_t> least_latencies(std::size_t source) const;
  Adjacency tight_arcs(const std::vector<std::int64_t>& latency) const;
  std::vector<double> widest(const Adjacency& tight, std::size_t source) const;
  std::vector<std::size_t> last_arcs(const Adjacency& tight, std::size_t source, double width) const;

  const std::vector<Arc>& arcs_;
  Adjacency leaving_;  // by ascending latency, so that a search can stop at the first arc that is too long
};

}  // namespace trainyard::detail
