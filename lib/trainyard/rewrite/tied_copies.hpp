#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// A training step in which ops of one colocation group, which read the same parameters, are in several places, each
/// with its own copy of the parameters. An example is an embedding on the first stage of a pipeline, and the head that
/// is tied to it on the last. With copies k = 1, 2, ... in addition to the group's own,
///
///     ops of copy k               form a group "GROUP/copy-k", whose first forward op holds parameters and state
///     a sum of gradients that     each copy adds up its own terms, if it has several ("SUM/own-k", or "SUM/own", in
///     several copies make         the backward pass). Then every device that has a copy adds these sums, in the
///                                 update phase and all in one order: "SUM", "SUM/copy-k"
///     an update of parameters     has a copy "UPDATE/copy-k"
///     that copy k holds
///     an update of parameters     is in the group of copy k
///     that only copy k holds
///
/// so that each copy sends its sum to the others once per step, whatever the number of microbatches, and all copies
/// stay equal. A copy that makes no gradient is updated by the gradients of the others.
///
/// Source: NVIDIA's Megatron-LM, core/distributed/finalize_model_grads.py (_allreduce_word_embedding_grads).
struct TiedCopiesGraph {
  Graph graph;
  IdMap<OpId, OpId> original{};  // for an op of a copy: the op that holds the copy
};
/// Throws InputError: "unknown-op"; "tied" (ops of a copy that are in no group or in two, named twice, or updates; a
/// copy without a forward op, or of parameters that no other op holds).
TiedCopiesGraph tie_copies(const Graph& graph, const TiedCopies& tied);

/// Copies for ops that are in another place than the first holder of their group's parameters, if that is the only
/// holder in its place. Ordered by group, then by place. Throws InputError ("size") unless each op has a place.
TiedCopies copies_by_place(const Graph& graph, const IdMap<OpId, std::size_t>& place);

/// Moves each op to the place of its colocation group, which is that of the group's first op. Throws InputError
/// ("size") unless each op has a place.
IdMap<OpId, std::size_t> places_of_groups(const Graph& graph, IdMap<OpId, std::size_t> place);

/// Name of an op, a tensor or a group of copy 1: "wte/update/copy-1".
std::string tied_copy_name(std::string_view name, std::size_t copy);

}  // namespace trainyard
