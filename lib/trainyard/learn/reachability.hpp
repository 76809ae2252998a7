#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/learn/matrix.hpp"

namespace trainyard::learn {

/// Of each node of a directed graph, which may have cycles: its ancestors, its descendants, and the nodes parallel to
/// it, which are neither; itself is in none. On a cycle a node may be both. Bit sets, computed once: O(nodes x edges /
/// 64).
struct Reachability {
  explicit Reachability(const RowLists& children);

  RowLists ancestors, descendants, parallel;  // by ascending number
};

}  // namespace trainyard::learn
