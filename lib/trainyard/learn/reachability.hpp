#pragma once

#include "trainyard/learn/matrix.hpp"

namespace trainyard::learn {

/// Ancestors and descendants of each node of a directed graph, which may have cycles, and the nodes parallel to
/// it, which are neither; itself is in none. On a cycle a node may be both. Bit sets, computed once: O(nodes x edges /
/// 64).
struct Reachability {
  explicit Reachability(const RowLists& children);

  RowLists ancestors, descendants, parallel;  // by ascending number
};

}  // namespace trainyard::learn
