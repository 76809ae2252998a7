#pragma once

#include "trainyard/learn/matrix.hpp"

namespace trainyard::learn {

/// For each node of a directed graph, its ancestors, its descendants, and the parallel nodes, which are neither; a node
/// is in none of its own lists. The graph may have cycles; on one, a node may be both ancestor and descendant. Computed
/// once with bit sets: O(nodes x edges / 64).
struct Reachability {
  explicit Reachability(const RowLists& children);

  RowLists ancestors, descendants, parallel;  // by ascending number
};

}  // namespace trainyard::learn
