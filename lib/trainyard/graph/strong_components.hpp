#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace trainyard {

/// The number of the strongly connected component of each of `count` nodes. Components are numbered in a topological
/// order. An edge leads from its first node to its second. O(V + E), without recursion.
///
/// R. Tarjan: Depth-first search and linear graph algorithms. SIAM Journal on Computing 1 (2), 1972.
std::vector<std::size_t> strong_components(std::size_t count,
                                           const std::vector<std::pair<std::size_t, std::size_t>>& edges);

}  // namespace trainyard
