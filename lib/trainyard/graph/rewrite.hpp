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

/// One op in parts (rewrite/split_op.hpp).
struct SplitOp {
  std::string op;
  SplitDimension dimension = SplitDimension::batch;
  std::size_t parts = 2;

  friend bool operator==(const SplitOp&, const SplitOp&) = default;
};

/// How ranks that each have an array come to have the sum of all (rewrite/collective.hpp): as sends and additions, or
/// whole, as one task.
enum class Collective : std::uint8_t { parameter_server, ring, halving_doubling, tree, hierarchical, whole };

/// Data parallelism: replicas of the whole graph, each with its share of the batch (rewrite/data_parallel.hpp).
struct Replicate {
  std::size_t replicas = 2;
  /// How gradients are added. By a parameter server, weights are shared; by the others, every replica has its own.
  Collective collective = Collective::parameter_server;
  std::size_t per_node = 1;  // hierarchical: consecutive replicas that form a node
  std::size_t zero = 0;      // ZeRO stage, 0 to 3; above 0 with the ring or whole collectives only; from 2 on
                             // gradients are scattered in the backward pass, of each microbatch
  Bytes bucket = kBucket;    // gradients of a model are added in buckets of at least this, but for the last

  /// The ops with which the later stages of a pipeline begin, in their order: a bucket has gradients of one stage
  /// alone, and of one tensor rank. An op is of the last stage whose first op comes before it, or is it, in topological
  /// order.
  std::vector<std::string> stages = {};

  /// Above 0: replicas are this many devices apart. Replicas that do the same form a class, only the first of each
  /// class is built, and classes[i] is how many it stands for; with whole collectives only. The
  /// placers of plans find the classes where that is exact.
  std::size_t fold = 0;
  std::vector<std::size_t> classes = {};
  std::vector<std::size_t> class_of = {};  // each replica's, where there are several and it is known

  /// Expert parallelism: this many replicas, one after the other, hold different experts of each mixture, and exchange
  /// tokens; 1: each holds all. It divides the replicas and the experts.
  std::size_t experts = 1;

  /// Context parallelism: this many replicas, one after the other, share the sequence of each sample. It divides the
  /// replicas.
  std::size_t context = 1;
  ContextExchange exchange = ContextExchange::all_gather;

  static constexpr Bytes kBucket{25 * 1024 * 1024};

  friend bool operator==(const Replicate&, const Replicate&) = default;
};

/// The batch in equal parts, one after the other, with gradients accumulated (rewrite/microbatches.hpp).
struct Microbatch {
  std::size_t parts = 2;
  /// So many parts are computed side by side, and the next ones behind them, as a framework does that runs both passes
  /// of a microbatch before it begins another; 0: each as soon as it can.
  std::size_t at_once = 0;

  friend bool operator==(const Microbatch&, const Microbatch&) = default;
};

/// A segment of forward ops, by name, that run again for the backward pass (rewrite/recompute.hpp).
struct Recompute {
  std::vector<std::string> ops;

  friend bool operator==(const Recompute&, const Recompute&) = default;
};

/// Ranks that share the features of each layer (rewrite/tensor_parallel.hpp).
struct TensorParallel {
  std::size_t ranks = 2;
  Collective collective = Collective::ring;  // or whole
  std::size_t fold = 0;                      // as of Replicate: the first rank stands for all
  bool sequence = false;                     // sequence parallelism between the layers' products

  friend bool operator==(const TensorParallel&, const TensorParallel&) = default;
};

/// A stage of StageMeshes: ops of the graph by name, in as many replicas of as many tensor ranks.
struct StageMesh {
  std::vector<std::string> ops;
  std::size_t replicas = 1, ranks = 1;
  bool sequence = false;  // as of TensorParallel

  friend bool operator==(const StageMesh&, const StageMesh&) = default;
};

/// Stages with degrees of their own (rewrite/stage_meshes.hpp): each op is in one.
struct StageMeshes {
  std::vector<StageMesh> stages;
  Collective collective = Collective::ring;  // of ranks and of replicas: or whole
  std::size_t zero = 0;                      // as of Replicate
  Bytes bucket = Replicate::kBucket;

  friend bool operator==(const StageMeshes&, const StageMeshes&) = default;
};

/// Copies of parameters that ops on several devices read, such as of an embedding that the head reads too
/// (rewrite/tied_copies.hpp): by copy, the ops that read it, by name.
struct TiedCopies {
  std::vector<std::vector<std::string>> copies;

  friend bool operator==(const TiedCopies&, const TiedCopies&) = default;
};

/// A tensor of the forward pass that waits for the backward pass in the host's memory (rewrite/offload.hpp).
struct Offload {
  std::string tensor;
  std::string away_before = {};  // the op that starts no sooner than it is there; empty: none waits
  std::string back_after = {};   // the op after which it comes back

  friend bool operator==(const Offload&, const Offload&) = default;
};

/// A change of a graph, as a schedule records it: plain data. apply_rewrites (rewrite/apply_rewrites.hpp) makes it.
using Rewrite =
    std::variant<SplitOp, Replicate, Microbatch, Recompute, TensorParallel, StageMeshes, Offload, TiedCopies>;

/// Folded replicas and ranks: how many devices `made` ones stand for, themselves included.
struct Folded {
  std::size_t devices = 1, made = 1;

  friend bool operator==(const Folded&, const Folded&) = default;
};
Folded folded(const std::vector<Rewrite>& rewrites);

}  // namespace trainyard
