#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/checkpoint.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/collective_task.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/graph/rewrite.hpp"

namespace trainyard {

/// A collective among replicas: `count` ops of their graph, from `first` on. The last `members` of these have its
/// result.
struct ReplicaCollective {
  enum class Of : std::uint8_t { gradients, squares, weights, fetch_forward, fetch_backward, share, exchange };
  Of of;
  CollectiveKind kind;
  std::size_t first = 0, count = 0, members = 0;
  std::vector<TensorId> tensors;  // of the original graph, end to end; for weights, their gradients
};

/// In-graph data parallelism with shared weights, as with a parameter server. FastT starts from this graph. With n
/// replicas,
///
///     an op of the forward or backward pass   n copies "conv@1", "conv@2", ...
///     an op that holds parameters             also an op "conv/weights" of type "Variable" that holds them with the
///                                             optimizer state, and whose one output all replicas read
///     a gradient of parameters                one op "GRADIENT/aggregate" sums its n copies (n > 1): reads n times its
///                                             bytes, writes them once
///     an update                               once, of the sum
///
/// Variables, aggregations and updates of a colocation group stay one group. The copies of its other ops may go
/// elsewhere, as weights are now sent. The readers of a variable are found by group: the op that held the parameters,
/// and the other ops of the group in its layer, or all of them if no layer matches. Ops that only make weight gradients
/// (types ending in "GradW", "GradB") do not read it. Groups without parameters are copied with their ops.
///
/// A share of the batch is 1/n of FLOPs, traffic, workspace, given times and tensors. Weights, their gradients and
/// tensors of at most 8 bytes are not divided. With one replica only the variables are new.
struct DataParallelGraph {
  Graph graph;
  std::size_t replicas = 1;
  std::size_t buckets = 0;  // buckets of gradients that replicas add
  /// Replica of each op, from 0; `replicas` for ops that all replicas share.
  IdMap<OpId, std::size_t> replica{};
  /// The op that each op is a copy of. For ops that hold weights, add gradients or send either: an op with these
  /// weights or, in the backward pass, an op that makes the gradients.
  IdMap<OpId, OpId> original{};
  std::vector<ReplicaCollective> collectives{};  // in the order of their ops; none with a parameter server
};
/// Replicates the graph. Each replica has its own weights, except with the parameter server. Without `divide_batch`
/// each replica computes the whole batch of the graph. Buckets are numbered from `first_bucket`. Throws InputError as
/// check_collective() does, and: "unsplittable" (no replica); "zero" (a stage above 3, or a collective other than ring
/// and whole); "experts" or "context" (groups that do not divide the replicas or experts, or a combination that is not
/// modelled); "fold" (classes that do not add up) and "collective" (a fold without whole collectives); "unknown-op" (a
/// pipeline stage that begins with no op of the graph). Throws OutOfTime if the checkpoint does, which is passed for
/// each op made.
DataParallelGraph data_parallel(const Graph& graph, const Replicate& replicate, bool divide_batch = true,
                                std::size_t first_bucket = 0, Checkpoint checkpoint = Checkpoint{});

}  // namespace trainyard
