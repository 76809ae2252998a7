#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/checkpoint.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/collective.hpp"
#include "trainyard/rewrite/context_use.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/expert_use.hpp"
#include "trainyard/rewrite/gradient_buckets.hpp"
#include "trainyard/rewrite/op_copy.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/training/optimizer.hpp"

namespace trainyard::detail {

/// Builds the graph of replicas for replicate(). replicated.cpp has the copies of ops and the sums of gradients;
/// replicas_exchange.cpp the exchanges within groups of replicas, for experts and for a shared sequence.
class Replicas {
 public:
  Replicas(const Graph& graph, const Replicate& options, bool divide_batch, std::size_t first_bucket,
           Checkpoint checkpoint);

  DataParallelGraph run();

 private:
  using Bucket = GradientBuckets::Bucket;
  using Names = std::vector<std::vector<std::string>>;  // names of tensors, by rank
  static constexpr std::size_t kNone = GradientBuckets::kNone;

  static std::string copy_of(std::string_view name, std::size_t replica);
  std::string name_in(std::size_t bucket, std::string_view what) const;
  static constexpr const char* fetch_of(Phase phase) {
    return phase == Phase::forward ? "fetch/forward" : "fetch/backward";
  }
  /// Name of the weights that the replica gathers for a pass.
  std::string fetch_name(Phase phase, std::size_t bucket, std::size_t replica) const;

  /// Number of slices of the bucket's weights. Replica r has slice r % slices, as its rank r / slices.
  std::size_t slices(const Bucket& bucket) const { return bucket.of_experts ? spread_ : 1; }
  std::string slice_name(std::size_t bucket, std::string_view what, std::size_t slice) const;
  /// Name of what a bucket's collective `what` makes in a step on a replica.
  std::string step_name(std::size_t bucket, std::string_view what, std::string_view step, std::size_t replica) const;

  bool is_whole() const { return options_.collective == Collective::whole; }
  bool folds() const { return options_.fold > 0; }
  /// Distance in devices from a replica that is built to the next one.
  std::size_t stride() const { return folds() ? options_.fold : 1; }
  /// Whether each replica has only its part of the bucket's sum. Terms that tensor ranks add up stay whole.
  bool is_shared(std::size_t bucket) const { return zero_ > 0 && !buckets_.buckets[bucket].is_whole; }
  /// Whether the op of the update phase adds shares of several buckets, those of tied copies.
  bool sums_shares(OpId op) const {
    const auto inputs = graph_.inputs(op);
    return n_ > 1 && graph_.phase(op) == Phase::update && !graph_.outputs(op).empty() &&
           graph_.type(op) != kSquareSumType && std::any_of(inputs.begin(), inputs.end(), [&](TensorId tensor) {
             return buckets_.of(tensor) != kNone && is_shared(buckets_.of(tensor));
           });
  }
  /// Whether the op adds squares of which each replica has its share.
  bool adds_squares_of_shares(OpId op) const { return n_ > 1 && zero_ > 0 && graph_.type(op) == kAddSquaresType; }
  /// Whether the replica is to add these squares: of its share, or, on the first replica, of a whole gradient.
  bool counts_squares(TensorId squares, std::size_t replica) const {
    const std::size_t bucket = buckets_.of(graph_.producer(squares));
    return replica == 0 || (bucket != kNone && is_shared(bucket));
  }
  void reduce_squares(OpId op);
  /// Whether replicas divide the state of the parameters that the op holds or updates.
  bool shares_state(OpId op) const { return buckets_.of(op) != kNone && is_shared(buckets_.of(op)); }
  bool is_sharded(OpId holder) const { return zero_ == 3 && shares_state(holder); }

  void add(const OpSpec& spec, std::size_t replica, OpId original);
  /// `members`: the replicas that are the ranks of the collective.
  void add(const CollectiveOps& collective, const std::vector<std::size_t>& members, OpId original,
           ReplicaCollective note);
  /// A collective of `members` that is not of gradients.
  void add(const CollectiveOps& collective, const Bucket& bucket, const std::vector<std::size_t>& members,
           ReplicaCollective::Of of);
  /// The replicas that are built and have this slice of the bucket.
  std::vector<std::size_t> members_of(const Bucket& bucket, std::size_t slice = 0) const;
  /// The copy of an op for a replica.
  OpSpec copy(OpId op, std::size_t replica) const;
  /// Whether copies of the op differ only in their share of the batch and in their names.
  bool is_plain(OpId op) const {
    return graph_.phase(op) != Phase::update && spread_ == 1 && options_.context == 1 && zero_ < 3;
  }
  void add_plain(OpId op, std::size_t replica);

  // --- of buckets ---
  std::vector<OpSpec> ranks(std::size_t bucket, Phase phase) const;
  std::vector<ArrayParts> whole(CollectiveOps& ops, CollectiveKind kind, Bytes bytes, const Names& inputs,
                                const std::vector<OutputSpec>& outputs, std::size_t apart = 1) const;
  OpId last_maker(const std::vector<TensorId>& gradients) const;
  void add_gradients(std::size_t bucket);
  template <class Fill>
  std::vector<ArrayParts> gather_shares(CollectiveOps& ops, const Bucket& bucket,
                                        const std::vector<std::size_t>& members, const std::vector<OutputSpec>& outputs,
                                        const Fill& fill);
  void gather_weights(std::size_t bucket);
  void fetch_weights(std::size_t bucket);

  // --- of neighbouring replicas ---
  struct Exchange;
  Bytes bytes_of_replica(TensorId tensor, std::size_t replica) const;
  Bytes bytes_of_group(TensorId tensor, std::size_t first, std::size_t size) const;
  void exchange(TensorId tensor, const Exchange& how);

  // --- experts ---
  bool has_share_of_experts(OpId op) const { return spread_ > 1 && experts_.inside[op]; }
  bool is_exchanged(TensorId tensor, OpId reader) const {
    return spread_ > 1 && experts_.crosses(graph_, tensor, reader);
  }
  static std::string exchanged(std::string_view name) { return std::string{name} + "/exchanged"; }
  void exchange_tokens(OpId op, TensorId tensor);

  // --- replicas that share the sequence ---
  static std::string part_name(std::string_view tensor, ContextUse::Part part, bool again = false);
  void exchange_rows(OpId op, TensorId tensor);
  void gather_again(OpId op);
  void take_all_rows(OpSpec& spec, OpId op, std::size_t replica) const;
  void shift(OpId op, TensorId tensor, std::string takes, std::string makes, std::string after = {});
  void attend_in_ring(OpId op);
  OpSpec ring_step(OpId op, std::size_t replica, std::size_t j, const std::string& name,
                   const std::vector<TensorId>& going) const;
  OpSpec ring_sum(OpId op, TensorId gradient, std::size_t replica, std::size_t j) const;

  const Graph& graph_;
  const Replicate& options_;
  const std::size_t n_, made_, parts_, zero_, spread_, first_bucket_;
  const ParameterUse use_;
  const ExpertUse experts_;
  const ContextUse context_;
  GradientBuckets buckets_;
  Checkpoint checkpoint_;
  DataParallelGraph result_;
  GraphBuilder builder_;
  OpCopy copy_;
  std::vector<std::string> suffixes_;  // of names, by replica
};

}  // namespace trainyard::detail
