#pragma once

#include <cstddef>
#include <span>

#include "trainyard/core/id.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard {

/// The subgraph of these ops, in their order; dependencies on other ops are left out.
Graph piece_of(const Graph& graph, std::span<const OpId> ops);

/// The problem of the first `count` ops in topological order. Throws InputError if these are no valid graph, because
/// they split ops that belong together.
Problem first_ops(const Problem& problem, std::size_t count);

}  // namespace trainyard
