#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/merge_colocate.hpp"

namespace trainyard {

/// Graph parsing as HSDAG coarsens (Duan et al.: A structure-aware framework for learning device placements on
/// computation graphs, NeurIPS 2024; Song et al.: Graph parsing networks, ICLR 2024). First merges chains: an op and
/// its only reader, if that reads nothing else. Then, in each round, every group selects its best edge to another
/// group, and groups connected by these edges are merged. A round at least halves the number of groups while all have
/// neighbours. In the papers a network learns the scores of edges. Here the score is the number of bytes that the two
/// groups send each other (ties: the group with the lower first op).
///
/// Ends at `most_groups` groups, merging the best edges first, or when no edge is left. Ops of different `kind` (empty:
/// all of one kind) are never merged, so more groups may remain. Colocation groups of the graph stay together. The
/// groups may depend on each other in cycles. Throws InputError ("size") if kinds are given, but not one for each op.
OpGroups parse_groups(const Graph& graph, std::size_t most_groups, const IdMap<OpId, std::uint32_t>& kind = {});

}  // namespace trainyard
