#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace trainyard {

/// The strongly connected component of each of `count` nodes, by number; components are numbered in a topological
/// order. Edges lead from their first node to their second. O(V + E), without recursion.
///
/// R. Tarjan: Depth-first search and linear graph algorithms. SIAM Journal on Computing 1 (2), 1972.
std::vector<std::size_t> strong_components(std::size_t count,
                                           const std::vector<std::pair<std::size_t, std::size_t>>& edges);

}  // namespace trainyard
