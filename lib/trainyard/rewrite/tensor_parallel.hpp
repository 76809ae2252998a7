#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/cost/nccl_model.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// Stands between a name and the tensor rank, counted from 1: "conv^2", of colocation groups too.
inline constexpr char kRankMark = '^';

/// "conv^2" of rank 1.
std::string rank_name(std::string_view name, std::size_t rank);
/// The rank at the end of a name, from 0; 0 for a name without one.
std::size_t tensor_rank(std::string_view name);

/// What a rank has of a tensor, and what it computes of an op: see TensorParallelGraph.
enum class RankLayout : std::uint8_t { whole, share, rows, partial };
enum class RankWay : std::uint8_t { whole, share, rows, column, row, vocabulary };

/// A collective among the ranks of a tensor-parallel graph: ops `first` to `first` + `count` of it.
struct RankCollective {
  CollectiveKind kind;
  Bytes bytes;   // of the whole array
  OpId made_by;  // in the graph as it was given
  Phase phase;
  TensorId tensor = TensorId::none();  // there; none: three numbers a row of a cross entropy, or
  std::vector<TensorId> terms = {};    // gradients of parameters, one after the other, whose terms are added up
  RankLayout to = RankLayout::whole;
  std::size_t first = 0, count = 0;
};

/// A training step on t ranks that share the features of each layer: channels, heads, the vocabulary. A tensor is
///
///     whole     on each rank
///     a share   1/t of its features on each: of its last dimension, of four or more the second
///     rows      1/t of its sequence on each: of two or three dimensions the last but one
///     partial   on each rank, as a term of the sum that it stands for
///
/// and an op, of which each rank has a copy "conv^1", "conv^2", ..., computes
///
///     column      a product of a whole operand with the weights of a share of its outputs           whole -> share
///     row         a product of a share with the weights of that share of its inputs                 share -> partial
///     vocabulary  a lookup in a share of the rows of a table of 8,192 or more                       whole -> partial
///     share       what is done feature by feature: elementwise ops, pools, batch norm; by head: batched
///                 products and softmax; cross entropy, which adds up three numbers a row            share -> share
///     rows        with sequence parallelism (TensorParallel::sequence), elementwise ops and norms from a row to the
///                 next column                                                                       rows -> rows
///     whole       anything else, on every rank alike                                                whole -> whole
///
/// A backward op computes as its forward op does: the gradient of a column's operand is partial, a row's a share, those
/// of weights are what the weights are. A sum of partial terms is partial; of gradients some may be whole,
/// which the first rank adds. A product takes a share as a row, else is a column. Between what an op needs and what
/// there is stand, by rings or whole (CollectiveOps), an all-reduce (partial to whole), an all-gather (share to whole)
/// and a reduce-scatter (partial to share or rows); of a whole tensor a rank reads its share. A transformer's layer has
/// two all-reduces in each pass, as in the source. With sequence parallelism it has two reduce-scatters and two
/// all-gathers in each instead, and in the backward pass two more: rows of the forward pass are gathered a second time,
/// when their op's gradient is there, and not kept whole. The products of experts are
/// columns and rows as others are; a mixture's router, and what takes tokens to experts and back, is whole on each
/// rank. The gradients of the norms' own parameters, which each rank holds, are partial then: they are added up once a
/// step, in the update phase, by one all-reduce a layer ("FIRST/all-reduce" of its first such gradient), after the sums
/// of replicas, as in NVIDIA's Megatron-LM (finalize_model_grads.py, which has one a stage).
///
/// Grouped queries, whose keys and values have fewer heads than there are ranks (t a multiple of these, and a divisor
/// of the queries' heads): ranks gather keys and values, each reads those of its own head, and their gradients are
/// terms of the sum, as in NVIDIA's Megatron-LM.
///
/// Extents that t does not divide are shared from 512 t on (a vocabulary, which is padded); ops of others, and those
/// without a signature, are whole. Shares of FLOPs, traffic, workspace, given times, parameters, state and tensors are
/// 1/t, and signatures have the shares' extents.
///
/// Source: M. Shoeybi et al.: Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism.
/// 2019, section 3; D. Narayanan et al., SC 2021, section 2.3; V. Korthikanti et al.: Reducing Activation Recomputation
/// in Large Transformer Models. MLSys 2023, section 4.2.
struct TensorParallelGraph {
  Graph graph;
  std::size_t ranks = 1;
  IdMap<OpId, std::size_t> rank{};  // from 0
  IdMap<OpId, OpId> original{};     // of what a collective does: the op that made its array
  std::vector<RankCollective> collectives = {};
  IdMap<OpId, RankWay> way{};            // of the ops of the graph as it was given; empty with one rank
  IdMap<TensorId, RankLayout> layout{};  // likewise
};
/// ranks >= 1; one is the graph itself.
TensorParallelGraph tensor_parallel(const Graph& graph, const TensorParallel& parallel);
/// The first rank alone, with one op of no time for each collective: what costs are worked out of.
TensorParallelGraph first_tensor_rank(const Graph& graph, const TensorParallel& parallel);

/// Whether there are products of attention, and the first one of which each rank would compute all heads; none: there
/// is none. `among`: of these ops; empty: of all.
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
