#pragma once

#include <span>

#include "trainyard/core/id.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The subgraph of these ops, in their order; dependencies on other ops are left out.
Graph piece_of(const Graph& graph, std::span<const OpId> ops);

}  // namespace trainyard
