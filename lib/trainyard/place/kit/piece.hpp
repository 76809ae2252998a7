#pragma once

#include <span>

#include "trainyard/core/id.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The graph of these ops alone, in their order; what they depend on outside it is left out.
Graph piece_of(const Graph& graph, std::span<const OpId> ops);

}  // namespace trainyard
