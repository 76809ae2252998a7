#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/random.hpp"

namespace trainyard {

/// An undirected graph to be cut into two sides, 0 and 1. Each edge is there from both of its ends.
struct CutGraph {
  static constexpr std::int8_t kFree = -1;

  std::vector<std::uint32_t> starts{0};  // of each vertex in `neighbours`, and one more
  std::vector<std::uint32_t> neighbours;
  std::vector<std::int64_t> weights;               // of the edges, beside `neighbours`
  std::vector<std::array<std::int64_t, 2>> loads;  // what each vertex takes on either side, in ns
  std::vector<std::int64_t> bytes;                 // what it holds
  std::vector<std::int8_t> fixed;                  // the only side for it, or kFree

  std::size_t size() const { return loads.size(); }
};

/// Limits of the sides: loads near the targets, bytes never above the limits.
struct CutTargets {
  std::array<std::int64_t, 2> loads{};
  std::array<std::int64_t, 2> bytes{};
  double imbalance = 0.05;  // how far above its target a load may be, as a share of it
};

/// A graph with the ends of a matching merged, and where each vertex went.
struct CoarserGraph {
  CutGraph graph;
  std::vector<std::uint32_t> merged_into;
};

/// Heavy-edge matching: the vertices in random order, each with the free neighbour at its heaviest edge (ties: the
/// lower id); never two that are fixed differently, nor beyond `most` of load on either side together.
CoarserGraph merge_matching(const CutGraph& fine, std::int64_t most, Random& random);

/// Cuts the graph: a side for each vertex, its own where it is fixed. First of all the bytes and then the loads are
/// kept to what is asked for (a load may be above its target by the imbalance, or by half of the heaviest vertex, which
/// may not go better); then the weight of the edges between the sides is small. The same for the same state of
/// `random`.
///
/// Multilevel: matchings are merged until few vertices are left, that graph is cut by greedy growth from several
/// starts, and the cut is improved by moving single vertices on the way back.
/// B. Hendrickson, R. Leland: A multilevel algorithm for partitioning graphs, SC 1995; G. Karypis, V. Kumar: A fast and
/// high quality multilevel scheme for partitioning irregular graphs, SIAM J. Sci. Comput. 20(1), 1998.
std::vector<std::uint8_t> bisect(const CutGraph& graph, const CutTargets& targets, Random& random);

}  // namespace trainyard
