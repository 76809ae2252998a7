#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/merge_colocate.hpp"

namespace trainyard {

/// Graph parsing as HSDAG coarsens (Duan et al.: A structure-aware framework for learning device placements on
/// computation graphs, NeurIPS 2024; Song et al.: Graph parsing networks, ICLR 2024). First chains: an op and its only
/// reader, which reads nothing else, are one group. Then in rounds: each group keeps its best edge to another, and what
/// these edges connect is one group; the number of groups at least halves where all have neighbours. There a network
/// learns the scores of edges; here an edge's score is the bytes that its two groups send each other (ties: the group
/// with the lower first op).
///
/// Ends at `most_groups`, best edges first, or where no edge is left: ops of different `kind` (empty: all alike) never
/// go together, so more may stay. Colocation groups of the graph stay together. The groups may depend on each other in
/// cycles.
OpGroups parse_groups(const Graph& graph, std::size_t most_groups, const IdMap<OpId, std::uint32_t>& kind = {});

}  // namespace trainyard
