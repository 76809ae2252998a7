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

/// A collective of ranks that share a sequence. `bytes` is its size as CollectiveKind counts it.
struct ContextCollective {
  CollectiveKind kind;
  Bytes bytes;
  OpId by;
  std::size_t times = 1;
  bool beside = false;  // each overlaps one step of the op, which has one step per rank
};

/// The exchanges of ranks that share the sequence of each sample (context parallelism). Each rank computes its own rows
/// of every op except attention, which looks at all rows. For an op "Attention" of queries, keys and values, and its
/// "AttentionGrad", a rank takes and makes
///
///                   all-gather                                       all-to-all
///     queries       own rows                                         own heads
///     keys, values  all rows; for the backward pass gathered again   own heads, kept for the backward pass
///     result        own rows                                         own heads, then own rows
///     gradients     of keys and values: terms of all rows, scattered own heads, then own rows
///
/// In a ring of c ranks, keys and values stay divided. Attention takes c steps. In step j a rank's own queries attend
/// to the keys and values of the rank j before it; these shift from rank to rank while the steps run. Each step
/// corrects the result so far by the log-sum-exp of the scores. In the backward pass the terms of the gradients of keys
/// and values go around the ring too. Each rank adds its own terms, and the last shift takes the sums to the rank that
/// owns the rows.
///
/// Each rank does the same amount of attention even if it is causal, as it has rows from both ends of the sequence
/// (zigzag).
///
/// Sources: Llama team: The Llama 3 Herd of Models. 2024, section 3.3.2 (all-gather); S. A. Jacobs et al.: DeepSpeed
/// Ulysses: System Optimizations for Enabling Training of Extreme Long Sequence Transformer Models. 2023, section 3;
/// H. Liu, M. Zaharia, P. Abbeel: Ring Attention with Blockwise Transformers for Near-Infinite Context. 2023, section
/// 3; NVIDIA: TransformerEngine, context_parallel.py (cp_comm_type p2p: double buffers, zigzag).
struct ContextUse {
  /// The part of a tensor that a rank has: `rows`, its own rows; `all`, all rows or, of gradients, terms of all rows;
  /// `heads`, all rows of its own heads.
  enum class Part : std::uint8_t { rows, all, heads };

  /// With one rank nothing is exchanged. Throws InputError ("context"): an op other than attention that looks at
  /// several rows; an attention without three operands of its own, with a bias or mask, or whose heads `ranks` does not
  /// divide (all-to-all), each naming the op; or a graph without attention.
  ContextUse(const Graph& graph, std::size_t ranks, ContextExchange exchange);

  bool is_attention(OpId op) const { return !keys[op].is_none(); }
  /// Whether the op makes the gradients of queries, keys and values (an AttentionGrad).
  static bool makes_gradients(const Graph& graph, OpId op);
  Part taken(const Graph& graph, OpId reader, TensorId tensor) const;
  /// Whether the reader takes keys or values of all rows that are gathered a second time, for the backward pass.
  bool gathers_again(const Graph& graph, OpId reader, TensorId tensor) const {
    return taken(graph, reader, tensor) == Part::all && graph.phase(reader) == Phase::backward;
  }

  /// The collectives of each attention. `graph` is one rank's share.
  std::vector<ContextCollective> collectives(const Graph& graph) const;
  /// Bytes that all ranks together access in addition to their shares. `graph` is the undivided graph.
  Bytes accessed_besides(const Graph& graph, OpId op) const;

  IdMap<TensorId, Part> made;
  IdMap<OpId, TensorId> queries, keys, values;  // of an attention in either pass
  std::size_t ranks;
  ContextExchange exchange;
};

/// Whether `ranks` ranks can share the sequence of the graph's samples, with the same number of rows each. All-to-alls
/// also have to divide the heads that each of `tensor` tensor ranks has.
bool shares_context(const Graph& graph, std::size_t ranks, ContextExchange exchange, std::size_t tensor = 1);

}  // namespace trainyard::detail
