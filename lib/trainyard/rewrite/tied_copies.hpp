#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// A training step in which ops of one colocation group, which read the same parameters, are in several places, each
/// with a copy: an embedding on the first stage of a pipeline, and the head that it is tied to on the last. With copies
/// k = 1, 2, ... besides the group's own,
///
///     ops of copy k               a group "GROUP/copy-k"; the first of the forward pass holds parameters and state
///     a sum of gradients that     what each copy has made of it is added there ("SUM/own-k", or "SUM/own", in the
///     several of them make        backward pass, where these are several terms), and these sums on every device that
///                                 has a copy, in the update phase, in one order: "SUM", "SUM/copy-k"
///     an update of what a copy    also "UPDATE/copy-k"
///     holds
///     an update of what ops of    with them
///     copy k alone hold
///
/// so that each copy sends its sum to the others once a step, whatever the number of microbatches, and all stay alike.
/// A copy that makes no gradient is updated by the others'.
///
/// Source: NVIDIA's Megatron-LM, core/distributed/finalize_model_grads.py (_allreduce_word_embedding_grads).
struct TiedCopiesGraph {
  Graph graph;
  IdMap<OpId, OpId> original{};  // of what a copy adds: the op that holds it
};
/// Throws InputError: "unknown-op"; "tied": ops of a copy that are of no group or of two, named twice, or of the
/// update, copies without an op of the forward pass, or of what no other op holds.
TiedCopiesGraph tie_copies(const Graph& graph, const TiedCopies& tied);

/// Copies for ops in other places than the first op of their group that holds parameters, where that alone does in its
/// place: by group, then by place. Throws InputError ("size") unless each op has a place.
TiedCopies copies_by_place(const Graph& graph, const IdMap<OpId, std::size_t>& place);

/// A colocation group is where its first op is: the places of ops, with each at that of its group. Throws InputError
/// ("size") unless each op has one.
IdMap<OpId, std::size_t> places_of_groups(const Graph& graph, IdMap<OpId, std::size_t> place);

/// "wte/update/copy-1": an op, a tensor or a group of copy 1.
std::string tied_copy_name(std::string_view name, std::size_t copy);

}  // namespace trainyard
