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

/// A graph's ops in clusters whose quotient has no cycle.
struct Coarsening {
  IdMap<OpId, ClusterOpId> cluster;                // of each op; numbered in a topological order of the quotient
  CompressedRows<ClusterOpId, OpId> members = {};  // in the graph's topological order
};

/// Inputs of coarsening, by op.
struct OpWeights {
  IdMap<OpId, Nanoseconds> time;
  IdMap<OpId, std::uint32_t> kind;  // only ops of one kind are merged: those that the same devices can run
};

/// Merges the ends of edges, the one that carries the most bytes first, in rounds, until `target` clusters are left or
/// no edge qualifies; then clusters without edges, smallest first. Clusters do not grow beyond three times the mean of
/// `target` clusters, as long as smaller ones can be merged.
///
/// After a round that merges less than one vertex in 100, as of the many readers of one op, leaves of one predecessor
/// or one successor are merged into it, any number at once.
///
/// A round merges a batch of edges (u, v) that keeps the quotient free of cycles. With H(v) the number of vertices on
/// the longest path from a root to v:
///
///     (i)   no two edges of the batch share an end;
///     (ii)  u has one successor, or v one predecessor, or H(v) = H(u) + 1, or all other successors w of u have
///           H(w) > H(v);
///     (iii) for any two (u, v) and (u', v') of the batch, (u, v') is no edge or H(u) != H(u').
///
/// U. U. Hafeez, X. Sun, A. Gandhi, Z. Liu: Towards optimal placement and scheduling of DNN operations with Pesto.
/// Middleware 2021, theorem 3.5; condition (iii) as it has to read: as printed it excludes nothing, not even the
/// paper's own counter-example (A -> C and B -> D where A -> D and B -> C are edges too). Throws InputError ("size").
Coarsening coarsen(const Graph& graph, const OpWeights& weights, std::size_t target);

}  // namespace trainyard
