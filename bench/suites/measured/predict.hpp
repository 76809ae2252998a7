#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rows.hpp"
#include "score.hpp"

namespace trainyard::bench {

/// Reached share of the data sheet's rate of network cards: nccl-tests on two nodes reach 0.86 (16 A100 of OCI) and
/// 0.98 (16 H100).
inline constexpr double kNetworkShare = 0.9;

/// Data sheets: the network cards of a node, in bytes/s in one direction.
double network_of(const MeasuredRow& row);

/// Why a row is not predicted, whatever its source: it is not to be scored, or has no step time. Empty: it may be.
std::string why_not(const MeasuredRow& row);
/// An outcome of the row: why_not(), else the seconds that the function says, else the message of the InputError that
/// it throws.
Outcome attempt(const MeasuredRow& row, std::string set, const std::function<double()>& predict);
/// Calls the function for each row whose split is "calibrate"; one that makes it throw InputError calibrates nothing.
void calibrate_with(const MeasuredSource& source, const std::function<void(const MeasuredRow&)>& use);
/// Throws InputError ("not-expressible").
[[noreturn]] void cannot(std::string why);
/// The number; cannot() where the source does not say it.
double told(const std::optional<double>& number, const char* what);

// One function a family of sources. Each returns an outcome for every row that is to be scored, in the order of the
// rows, which have to outlive them. What they are calibrated with are rows whose split is "calibrate", which then are
// not scored, but for those of one GPU, to which nothing is fitted.

/// NeuSight: one GPU by the costs of the ops of a built-in network, forward and backward, and of adding the gradients
/// to those of the step before; replicas by that and the all-reduce of the gradients; a pipeline with microbatches by
/// run_plan(). `roofline`: by the costs of `--costs roofline`.
std::vector<Outcome> predict_neusight(const MeasuredSource& source, const AllReduceTimes& all_reduce,
                                      bool roofline = false);

/// Rows of one GPU by the costs of the ops of a built-in network, with its usual optimizer: whatever the framework. A
/// part of the set for each precision.
std::vector<Outcome> predict_one_gpu(const MeasuredSource& source, const std::string& set, bool roofline = false);

/// Replicas (and pipelines of them) from the row of one GPU of the same model, framework, kind, precision and
/// microbatch:
///
///     t_n = a t_1 (1 + s z_n) + T
///
/// t_1: one microbatch on one GPU; a: microbatches of a replica; s: relative standard deviation of GPUs of one kind,
/// from rows of one GPU that differ in the memory of their V100 alone (replica_spread); z_n: the largest of n standard
/// normal values, as a step waits for its slowest GPU (G. Blom: Statistical Estimates, 1958: z_n = the quantile at (n -
/// 3/8) / (n + 1/4)); T: the all-reduce of the gradients (2 bytes a parameter in half precision, else 4; 4 in AMP,
/// whose parameters are float32) within a node, in buckets of 25 MiB, and between nodes 2 (k - 1) / k of them over
/// kNetworkShare of a node's cards. Nothing is overlapped with the backward pass. GPTs on several tensor ranks are
/// those of transformer_seconds(), with the mean scale that the framework's rows of one GPU give.
std::vector<Outcome> predict_replicas(const MeasuredSource& source, const AllReduceTimes& all_reduce, double spread);

/// The spread of one kind of GPU: the root mean square of ln(step / step) / sqrt(2) over pairs of `calibrate` rows of
/// one GPU that differ in their V100-SXM2's memory alone. 0 without such a pair.
double replica_spread(const MeasuredSource& source);

/// Fully sharded training (ZeRO 3) of GPT by a layer's work, with two constants for each generation of GPUs that its
/// `calibrate` rows fit: the share of the peak that linear layers reach, and the bytes that all else moves.
std::vector<Outcome> predict_sharded(const MeasuredSource& source, const AllReduceTimes& all_reduce);

/// Pipelines: by run_plan() with the costs of a built-in GPT's layers, as a ratio to the model's `calibrate` row.
std::vector<Outcome> predict_pipelines(const MeasuredSource& source);

/// Replicas, ranks and stages of GPT on one node: by run_plan() with times of a layer and of what is not in layers that
/// the `calibrate` rows give, for each tensor degree, width and microbatch; larger degrees from those of 1 and 2.
std::vector<Outcome> predict_profiled(const MeasuredSource& source, const AllReduceTimes& all_reduce);

/// Measured times of a layer's kernels over those of layer_times() (gpt_rank.hpp).
struct LayerScale {
  double forward = 1, backward = 1;
  std::size_t gpus = 1;  // of which the slowest was measured
};
/// Mean ratios, measured to predicted, of the `calibrate` rows of one layer that tell both passes (Korthikanti et al.,
/// table 4), without what collectives among the ranks add.
LayerScale layer_scale(const MeasuredSource& source, const AllReduceTimes& all_reduce);
/// Scales, one for both passes, of the `calibrate` steps of GPTs on so many GPUs, by what the key says of them: the
/// mean of what makes transformer_seconds() what was measured.
std::map<std::string, LayerScale> step_scales(const MeasuredSource& source, const AllReduceTimes& all_reduce,
                                              std::size_t gpus,
                                              const std::function<std::string(const MeasuredRow&)>& key);
/// Kernels of the slowest of so many GPUs: z_n of predict_replicas().
LayerScale spread_among(const LayerScale& scale, double spread, std::size_t gpus);

/// GPTs on any number of nodes, by run_plan():
///
///     layer       kernels times the scale, and its ranks' sums, each pass at least what the host takes to launch it
///     sums        in a node as measured, between nodes by NCCL's model over kNetworkShare of the node's cards; from
///                 2022 on Megatron-LM makes gradients of weights while it sums those of rows
///     neighbours  a share from each rank over a card of its own; sender and receiver wait
///     after it    the sum of the replicas' gradients, 2 bytes a parameter, and the update, not overlapped
///     ZeRO 3      a layer's weights are gathered during each of its passes, and its gradients scattered
///
/// What a source does not say (microbatch, chunks, recomputation) is what is predicted to be fastest of what fits into
/// memory. ZeRO 3 takes the scale that `sharded` has for its generation of GPU.
std::vector<Outcome> predict_transformers(const MeasuredSource& source, const AllReduceTimes& all_reduce,
                                          const LayerScale& scale, const std::map<std::string, LayerScale>& sharded,
                                          double spread);
/// The step of one such row.
double transformer_seconds(const MeasuredRow& row, const std::string& source, const AllReduceTimes& all_reduce,
                           const LayerScale& scale);

}  // namespace trainyard::bench
