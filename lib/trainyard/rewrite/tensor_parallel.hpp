#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// Mark between a name, also of a colocation group, and the tensor rank, counted from 1: "conv^2".
inline constexpr char kRankMark = '^';

/// "conv^2" for rank 1.
std::string rank_name(std::string_view name, std::size_t rank);
/// The rank at the end of a name, from 0; 0 for a name without one.
std::size_t tensor_rank(std::string_view name);

/// The part of a tensor that a rank has, and the way in which it computes an op: see TensorParallelGraph.
enum class RankLayout : std::uint8_t { whole, share, rows, partial };
enum class RankWay : std::uint8_t { whole, share, rows, column, row, vocabulary };

/// A collective among the ranks of a tensor-parallel graph: `count` of its ops, from `first` on.
struct RankCollective {
  CollectiveKind kind;
  Bytes bytes;   // of the whole array
  OpId made_by;  // op of the original graph
  Phase phase;
  TensorId tensor = TensorId::none();  // of the original graph; none: see `terms`
  /// Gradients of parameters, end to end, whose terms are added up. Without these and without a tensor, the array has
  /// the three numbers per row of a cross entropy.
  std::vector<TensorId> terms = {};
  RankLayout to = RankLayout::whole;
  std::size_t first = 0, count = 0;
};

/// A training step on t ranks that share the features of each layer: channels, heads, the vocabulary. A tensor is one
/// of
///
///     whole     on each rank
///     a share   1/t of its features on each rank: of the last dimension, or of the second of four or more
///     rows      1/t of its sequence on each rank: of the last but one of two or three dimensions
///     partial   on each rank, as a term of a sum
///
/// Each rank has a copy "conv^1", "conv^2", ... of an op, which computes one of
///
///     column      a product of a whole operand with the weights of a share of the outputs           whole -> share
///     row         a product of a share with the weights of that share of the inputs                 share -> partial
///     vocabulary  a lookup in a share of the rows of a table of at least 8,192                      whole -> partial
///     share       ops feature by feature: elementwise ops, pools, batch norm; ops by head: batched
///                 products and softmax; cross entropy, which adds up three numbers per row          share -> share
///     rows        with sequence parallelism (TensorParallel::sequence), elementwise ops and norms from a row to the
///                 next column                                                                       rows -> rows
///     whole       anything else, identically on every rank                                          whole -> whole
///
/// A backward op computes as its forward op does. The gradient of a column's operand is partial, that of a row's
/// operand a share. Gradients of weights have the layout of the weights. A sum of partial terms is partial; among
/// gradients some may be whole, and only the first rank adds these. A product whose operand is a share is a row,
/// otherwise a column.
///
/// Collectives, by rings or whole (CollectiveOps), convert a tensor to the layout that an op needs: an all-reduce
/// (partial to whole), an all-gather (share to whole) or a reduce-scatter (partial to share or rows). A rank reads its
/// share of a whole tensor without a collective. A transformer's layer has two all-reduces in each pass, as in the
/// source. With sequence parallelism it has two reduce-scatters and two all-gathers in each pass instead, and two more
/// all-gathers in the backward pass: rows of the forward pass are not kept whole, but gathered again when their op's
/// gradient is available.
///
/// Products of experts are columns and rows like others. A mixture's router, and the ops that take tokens to experts
/// and back, are whole on each rank. With sequence parallelism the gradients of the norms' parameters, which each rank
/// holds, are partial. They are added up once per step, in the update phase, after the sums of replicas, by one
/// all-reduce per layer ("FIRST/all-reduce", after its first such gradient). NVIDIA's Megatron-LM does this once per
/// stage (finalize_model_grads.py).
///
/// Grouped queries: keys and values may have fewer heads than there are ranks, if t is a multiple of that number and
/// divides the number of query heads. Ranks then gather keys and values, each reads those of its own head, and their
/// gradients are terms of a sum, as in NVIDIA's Megatron-LM.
///
/// An extent that t does not divide is shared if it is at least 512 t (a vocabulary, which is padded). Ops with other
/// extents, and ops without a signature, are whole. Shares of FLOPs, traffic, workspace, given times, parameters, state
/// and tensors are 1/t, and signatures have the extents of shares.
///
/// Source: M. Shoeybi et al.: Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism.
/// 2019, section 3; D. Narayanan et al., SC 2021, section 2.3; V. Korthikanti et al.: Reducing Activation Recomputation
/// in Large Transformer Models. MLSys 2023, section 4.2.
struct TensorParallelGraph {
  Graph graph;
  std::size_t ranks = 1;
  IdMap<OpId, std::size_t> rank{};  // from 0
  IdMap<OpId, OpId> original{};     // for ops of a collective: the op that made its array
  std::vector<RankCollective> collectives = {};
  IdMap<OpId, RankWay> way{};            // of ops of the original graph; empty with one rank
  IdMap<TensorId, RankLayout> layout{};  // of tensors of the original graph; empty with one rank
};
/// Requires ranks >= 1. One rank gives the graph itself.
TensorParallelGraph tensor_parallel(const Graph& graph, const TensorParallel& parallel);
/// Only the first rank, with one op of no time for each collective. Costs are derived from this graph.
TensorParallelGraph first_tensor_rank(const Graph& graph, const TensorParallel& parallel);

/// `any`: whether there are products of attention. `whole`: the first such product of which each rank would compute all
/// heads; none() if there is none. `among` restricts the ops to those for which it is true; empty: all ops.
struct HeadsShared {
  bool any = false;
  OpId whole = OpId::none();
};
HeadsShared heads_shared(const Graph& graph, const TensorParallel& parallel,
                         const std::function<bool(OpId)>& among = {});

/// Whether ranks would share any parameters.
bool shares_parameters(const Graph& graph, const TensorParallel& parallel);
/// Whether any op would compute a share of the sequence.
bool shares_sequence(const Graph& graph, const TensorParallel& parallel);

}  // namespace trainyard
