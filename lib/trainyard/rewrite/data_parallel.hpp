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

/// A collective among replicas: ops `first` to `first` + `count` of their graph, of which the last `members` have what
/// comes of it.
struct ReplicaCollective {
  enum class Of : std::uint8_t { gradients, weights, fetch_forward, fetch_backward, share, exchange };
  Of of;
  CollectiveKind kind;
  std::size_t first = 0, count = 0, members = 0;
  std::vector<TensorId> tensors;  // in the graph as it was given: end to end; of weights their gradients
};

/// In-graph data parallelism with shared weights: a parameter server, and what FastT starts from. With n replicas,
///
///     an op of the forward or backward pass   n copies "conv@1", "conv@2", ...
///     an op that holds parameters             besides an op "conv/weights" of type "Variable" that holds them with the
///                                             optimizer state, and whose one output all replicas read
///     a gradient of parameters                its n copies are summed by one op "GRADIENT/aggregate" (n > 1): reads n
///                                             times its bytes, writes them once
///     an update                               once, of the sum
///
/// Variables, aggregations and updates of one colocation group stay one group; the copies of its other ops go free, for
/// now weights are sent. Who reads a variable is known by group: the op that held the parameters; of the other ops of
/// the group, except those that make weight gradients alone (types ending in "GradW", "GradB"), those of its layer, or
/// all where the layers tell none apart. Groups without parameters are copied with their ops.
///
/// A share of the batch is 1/n of FLOPs, traffic, workspace, given times and tensors, but for weights and their
/// gradients, and tensors of at most 8 bytes. With one replica only the variables are new.
struct DataParallelGraph {
  Graph graph;
  std::size_t replicas = 1;
  std::size_t buckets = 0;  // of gradients that replicas add
  /// The replica of each op, from 0; `replicas` for ops that all share.
  IdMap<OpId, std::size_t> replica{};
  /// The op that each is a copy of; of what holds weights, adds gradients or sends either: an op whose weights these
  /// are, or in the backward pass one that makes the gradients.
  IdMap<OpId, OpId> original{};
  std::vector<ReplicaCollective> collectives{};  // in the order of their ops; none behind a parameter server
};
/// Replicas, each with weights of its own but under the parameter server. Without `divide_batch` each replica computes
/// the whole batch of the graph; buckets are numbered from `first_bucket`. Throws InputError as check_collective()
/// does, and "unsplittable": no replica; "zero": a stage above 3, or without the ring; "experts": not divided by those
/// that share them; "unknown-op": a stage that begins with no op of the graph; and OutOfTime where the checkpoint does,
/// which it passes for each op that it makes.
DataParallelGraph data_parallel(const Graph& graph, const Replicate& replicate, bool divide_batch = true,
                                std::size_t first_bucket = 0, Checkpoint checkpoint = Checkpoint{});

}  // namespace trainyard
