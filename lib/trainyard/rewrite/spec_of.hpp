#pragma once

#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The op as its author declared it, from which rewrites start: a graph is built again of those of its ops, some of
/// them changed.
OpSpec spec_of(const Graph& graph, OpId op);

}  // namespace trainyard
