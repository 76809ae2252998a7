#pragma once

#include "trainyard/graph/builder.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

/// The op as its author declared it. Rewrites build a new graph from these specs after changing some of them.
OpSpec spec_of(const Graph& graph, OpId op);

}  // namespace trainyard
