#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "trainyard/core/context_exchange.hpp"
#include "trainyard/core/quantity.hpp"

namespace trainyard {

enum class SplitDimension : std::uint8_t {
  batch,    // samples
  channel,  // output channels of a convolution, output features of a product
};

/// Splits one op into parts (rewrite/split_op.hpp).
struct SplitOp {
  std::string op;
  SplitDimension dimension = SplitDimension::batch;
  std::size_t parts = 2;

  friend bool operator==(const SplitOp&, const SplitOp&) = default;
};

/// Algorithm of an all-reduce among ranks (rewrite/collective.hpp): written out as sends and additions, or `whole`, as
/// one collective task.
enum class Collective : std::uint8_t { parameter_server, ring, halving_doubling, tree, hierarchical, whole };

/// Data parallelism: replicas of the whole graph, each with its share of the batch (rewrite/data_parallel.hpp).
struct Replicate {
  std::size_t replicas = 2;
  /// Collective that adds the gradients. With parameter_server all replicas share the weights; with the others each
  /// replica has its own.
  Collective collective = Collective::parameter_server;
  std::size_t per_node = 1;  // hierarchical: number of consecutive replicas that form a node
  std::size_t zero = 0;      // ZeRO stage, 0 to 3; above 0 only with the collectives ring and whole. From 2 on, the
                             // backward pass of each microbatch scatters its gradients
  Bytes bucket = kBucket;    // least size of a gradient bucket (the last one may be smaller)

  /// First op of each later pipeline stage, in order of the stages. A bucket holds gradients of one stage and one
  /// tensor rank only. An op belongs to the last stage whose first op precedes it in topological order, or is the op
  /// itself.
  std::vector<std::string> stages = {};

  /// Above 0: replicas are this many devices apart and only one replica per class is built. Replicas with identical
  /// behaviour form a class; its first replica stands for classes[i] replicas. Requires `whole` collectives. The plan
  /// placers find the classes for which folding is exact.
  std::size_t fold = 0;
  std::vector<std::size_t> classes = {};
  std::vector<std::size_t> class_of = {};  // the class of each replica, if there are several and they are known

  /// Expert parallelism: each group of this many consecutive replicas shares the experts of each mixture, and exchanges
  /// tokens. 1: each replica holds all experts. Divides the number of replicas and the number of experts.
  std::size_t experts = 1;

  /// Context parallelism: each group of this many consecutive replicas shares the sequence of each sample. Divides the
  /// number of replicas.
  std::size_t context = 1;
  ContextExchange exchange = ContextExchange::all_gather;

  static constexpr Bytes kBucket{25 * 1024 * 1024};

  friend bool operator==(const Replicate&, const Replicate&) = default;
};

/// Splits the batch into equal parts that run one after another and accumulate gradients (rewrite/microbatches.hpp).
struct Microbatch {
  std::size_t parts = 2;
  /// Above 0: microbatches run in groups of this many. A group starts after the backward passes of the group before it,
  /// as in a framework that runs both passes of a microbatch before it begins another. 0: each starts as early as
  /// possible.
  std::size_t at_once = 0;

  friend bool operator==(const Microbatch&, const Microbatch&) = default;
};

/// A segment of forward ops, by name, that the backward pass recomputes (rewrite/recompute.hpp).
struct Recompute {
  std::vector<std::string> ops;
  std::vector<std::string> also = {};  // run again with them, although nothing reads their results

  friend bool operator==(const Recompute&, const Recompute&) = default;
};

/// Tensor parallelism: ranks share the features of each layer (rewrite/tensor_parallel.hpp).
struct TensorParallel {
  std::size_t ranks = 2;
  Collective collective = Collective::ring;  // or whole
  std::size_t fold = 0;                      // as in Replicate: the first rank stands for all
  bool sequence = false;                     // sequence parallelism between the layers' products

  friend bool operator==(const TensorParallel&, const TensorParallel&) = default;
};

/// A stage of StageMeshes: ops of the graph by name, and the numbers of its replicas and of their tensor ranks.
struct StageMesh {
  std::vector<std::string> ops;
  std::size_t replicas = 1, ranks = 1;
  bool sequence = false;  // as in TensorParallel

  friend bool operator==(const StageMesh&, const StageMesh&) = default;
};

/// Pipeline stages with individual parallel degrees (rewrite/stage_meshes.hpp). Each op is in one stage.
struct StageMeshes {
  std::vector<StageMesh> stages;
  Collective collective = Collective::ring;  // of both ranks and replicas: ring or whole
  std::size_t zero = 0;                      // as in Replicate
  Bytes bucket = Replicate::kBucket;

  friend bool operator==(const StageMeshes&, const StageMeshes&) = default;
};

/// Copies of parameters that ops on several devices read, such as an embedding shared with the head
/// (rewrite/tied_copies.hpp). For each copy, the names of the ops that read it.
struct TiedCopies {
  std::vector<std::vector<std::string>> copies;

  friend bool operator==(const TiedCopies&, const TiedCopies&) = default;
};

/// A forward tensor that is kept in host memory until the backward pass needs it (rewrite/offload.hpp).
struct Offload {
  std::string tensor;
  std::string away_before = {};  // this op waits until the tensor is in host memory; empty: none waits
  std::string back_after = {};   // this op ends before the tensor is fetched back

  friend bool operator==(const Offload&, const Offload&) = default;
};

/// A change of a graph, as plain data recorded in a schedule. apply_rewrites (rewrite/apply_rewrites.hpp) applies it.
using Rewrite =
    std::variant<SplitOp, Replicate, Microbatch, Recompute, TensorParallel, StageMeshes, Offload, TiedCopies>;

/// Folding factor of replicas and ranks: `made` replicas and ranks of the graph stand for `devices`, themselves
/// included.
struct Folded {
  std::size_t devices = 1, made = 1;

  friend bool operator==(const Folded&, const Folded&) = default;
};
Folded folded(const std::vector<Rewrite>& rewrites);

}  // namespace trainyard
