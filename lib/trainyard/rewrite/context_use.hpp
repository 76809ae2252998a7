#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/context_exchange.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/graph/graph.hpp"

namespace trainyard::detail {

/// A collective of ranks that share a sequence, on `bytes` as CollectiveKind counts them.
struct ContextCollective {
  CollectiveKind kind;
  Bytes bytes;
  OpId by;
  std::size_t times = 1;
  bool beside = false;  // each beside one of as many parts of the op as there are ranks
};

/// What ranks that share the sequence of each sample exchange. Each computes its rows of every op but of attention,
/// which looks at all of them. An op "Attention" of queries, keys and values, and its "AttentionGrad", take and make on
/// a rank
///
///                   all-gather                                       all-to-all
///     queries       own rows                                         own heads
///     keys, values  all rows; for the backward pass gathered again   own heads, kept for the backward pass
///     result        own rows                                         own heads, then own rows
///     gradients     of keys and values: terms of all rows, scattered own heads, then own rows
///
/// In a ring of c ranks keys and values stay divided. Attention takes c steps, in step j of its own rows of queries to
/// the keys and values of the rank j before, which shift from rank to rank beside the steps; each step corrects the
/// result so far by the logarithms of the sums of exponentials. Backward the terms of the gradients of keys and values
/// go around too, each rank adds its own, and the last shift takes them to the rank whose they are.
///
/// Each rank does as much of the attention, also where it is causal: it has rows from both ends (zigzag).
///
/// Sources: Llama team: The Llama 3 Herd of Models. 2024, section 3.3.2 (all-gather); S. A. Jacobs et al.: DeepSpeed
/// Ulysses: System Optimizations for Enabling Training of Extreme Long Sequence Transformer Models. 2023, section 3;
/// H. Liu, M. Zaharia, P. Abbeel: Ring Attention with Blockwise Transformers for Near-Infinite Context. 2023, section
/// 3; NVIDIA: TransformerEngine, context_parallel.py (cp_comm_type p2p: double buffers, zigzag).
struct ContextUse {
  /// What a rank has of a tensor: its rows; all of them, or of gradients terms of all; its heads of all rows.
  enum class Part : std::uint8_t { rows, all, heads };

  /// One rank exchanges nothing. Throws InputError ("context") with the op: one that looks at several rows and is no
  /// attention, an attention whose heads `ranks` do not divide (all-to-all); or where there is no attention.
  ContextUse(const Graph& graph, std::size_t ranks, ContextExchange exchange);

  bool is_attention(OpId op) const { return !keys[op].is_none(); }
  /// Whether the op has three results: the gradients of queries, keys and values.
  static bool makes_gradients(const Graph& graph, OpId op);
  Part taken(const Graph& graph, OpId reader, TensorId tensor) const;
  /// Gathered for the backward pass: all rows of keys and values.
  bool gathers_again(const Graph& graph, OpId reader, TensorId tensor) const {
    return taken(graph, reader, tensor) == Part::all && graph.phase(reader) == Phase::backward;
  }

  /// What ranks exchange for each attention, of a graph that is a rank's share.
  std::vector<ContextCollective> collectives(const Graph& graph) const;
  /// Bytes that all ranks together read and write besides their shares, of a whole graph.
  Bytes accessed_besides(const Graph& graph, OpId op) const;

  IdMap<TensorId, Part> made;
  IdMap<OpId, TensorId> queries, keys, values;  // of an attention in either pass
  std::size_t ranks;
  ContextExchange exchange;
};

/// Whether as many ranks could share the sequence of the graph's samples, each as many rows; all-to-alls divide the
/// heads that each of `tensor` ranks has.
bool shares_context(const Graph& graph, std::size_t ranks, ContextExchange exchange, std::size_t tensor = 1);

}  // namespace trainyard::detail
