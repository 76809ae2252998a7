#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard {

using ClusterOpId = Id<struct ClusterOpTag>;

/// A partition of a graph's ops into clusters whose quotient graph has no cycle.
struct Coarsening {
  IdMap<OpId, ClusterOpId> cluster;                // by op; numbered in a topological order of the quotient
  CompressedRows<ClusterOpId, OpId> members = {};  // in the graph's topological order
};

/// Inputs of coarsening, by op.
struct OpWeights {
  IdMap<OpId, Nanoseconds> time;
  IdMap<OpId, std::uint32_t> kind;  // only ops of one kind, which the same devices can run, are merged
};

/// Coarsens the graph. Merges the ends of edges in rounds, edges with the most bytes first, until `target` clusters
/// remain or no edge qualifies. Then merges clusters without edges, smallest first. A cluster's time is at most three
/// times the mean time of `target` clusters, as long as smaller clusters can be merged.
///
/// If a round merges fewer than one vertex in 100 (for example because many ops read one op), leaves with one
/// predecessor or one successor are merged into it, any number at once.
///
/// A round merges a batch of edges (u, v) that keeps the quotient acyclic. With H(v) the number of vertices on the
/// longest path from a root to v:
///
///     (i)   no two edges of the batch share an end;
///     (ii)  u has one successor, or v one predecessor, or H(v) = H(u) + 1, or all other successors w of u have
///           H(w) > H(v);
///     (iii) for any two (u, v) and (u', v') of the batch, (u, v') is no edge or H(u) != H(u').
///
/// U. U. Hafeez, X. Sun, A. Gandhi, Z. Liu: Towards optimal placement and scheduling of DNN operations with Pesto.
/// Middleware 2021, theorem 3.5. Condition (iii) is corrected: as printed it excludes nothing, not even the paper's own
/// counter-example (A -> C and B -> D with A -> D and B -> C as further edges). Throws InputError ("size").
Coarsening coarsen(const Graph& graph, const OpWeights& weights, std::size_t target);

}  // namespace trainyard
