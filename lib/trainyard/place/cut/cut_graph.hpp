#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/random.hpp"

namespace trainyard {

/// An undirected graph to be cut into two sides, 0 and 1. Each edge is stored at both of its ends.
struct CutGraph {
  static constexpr std::int8_t kFree = -1;

  std::vector<std::uint32_t> starts{0};  // offset of each vertex in `neighbours`, and an end marker
  std::vector<std::uint32_t> neighbours;
  std::vector<std::int64_t> weights;               // of the edges, parallel to `neighbours`
  std::vector<std::array<std::int64_t, 2>> loads;  // of each vertex on either side, in ns
  std::vector<std::int64_t> bytes;                 // of each vertex
  std::vector<std::int8_t> fixed;                  // the only possible side, or kFree

  std::size_t size() const { return loads.size(); }
};

/// Limits of the sides: loads near the targets, bytes at most the limits.
struct CutTargets {
  std::array<std::int64_t, 2> loads{};
  std::array<std::int64_t, 2> bytes{};
  double imbalance = 0.05;  // by how much a load may exceed its target, as a share of it
};

/// A graph with the ends of a matching merged; by vertex, the one that it was merged into.
struct CoarserGraph {
  CutGraph graph;
  std::vector<std::uint32_t> merged_into;
};

/// Heavy-edge matching: takes the vertices in random order, and merges each with the free neighbour at its heaviest
/// edge (ties: the lower id). Two vertices are not merged if they are fixed differently, or if their loads together
/// exceed `most` on either side.
CoarserGraph merge_matching(const CutGraph& fine, std::int64_t most, Random& random);

/// Cuts the graph: a side for each vertex, its own if it is fixed. Limits on bytes and loads come first: a load may
/// exceed its target by the imbalance, or by half of the heaviest vertex, since better may be impossible. Then the
/// weight of the edges between the sides is kept small. The result is determined by the state of `random`.
///
/// Multilevel: matchings are merged until few vertices are left, that graph is cut by greedy growth from several
/// starts, and the cut is improved by moves of single vertices on the way back.
/// B. Hendrickson, R. Leland: A multilevel algorithm for partitioning graphs, SC 1995; G. Karypis, V. Kumar: A fast and
/// high quality multilevel scheme for partitioning irregular graphs, SIAM J. Sci. Comput. 20(1), 1998.
std::vector<std::uint8_t> bisect(const CutGraph& graph, const CutTargets& targets, Random& random);

}  // namespace trainyard
