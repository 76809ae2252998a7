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

/// Share of the data sheet's rate of network cards that transfers reach. nccl-tests on two nodes reach 0.86 (16 A100 of
/// OCI) and 0.98 (16 H100).
inline constexpr double kNetworkShare = 0.9;
/// Bandwidth between two GPUs of an A100 node in bytes/s: NVLink 3, measured by nvbandwidth.
inline constexpr double kNvLink = 264e9;
/// Share of the memory's bandwidth that elementwise kernels and large copies reach: on A100, from NeuSight.
inline constexpr double kStreamShare = 0.88;
/// Share of the peak that fused attention reaches on A100, for the FLOPs of a causal mask: FlashAttention reaches 0.25
/// to 0.4 (T. Dao: FlashAttention-2, 2023).
inline constexpr double kFusedAttention = 0.33;

/// Rate of all network cards of a node by their data sheets, in bytes/s in one direction.
double network_of(const MeasuredRow& row);

/// Reason for which no source predicts the row: it has no step time, must not be scored, or uses a precision or context
/// parallelism that the predictions lack. Empty if it can be predicted.
std::string why_not(const MeasuredRow& row);
/// Outcome of the row: the reason why_not() or, if there is none, the seconds that `predict` returns or the message of
/// the InputError that it throws.
Outcome attempt(const MeasuredRow& row, std::string set, const std::function<double()>& predict);
/// Calls `use` for each row whose split is "calibrate" and that has no reason why_not(). Rows for which `use` throws
/// InputError are skipped.
void calibrate_with(const MeasuredSource& source, const std::function<void(const MeasuredRow&)>& use);
/// Throws InputError ("not-expressible").
[[noreturn]] void cannot(std::string why);
/// The number. Calls cannot() if the source does not give it.
double told(const std::optional<double>& number, const char* what);

// One function per family of sources. Each returns an outcome for every row to be scored, in the order of the rows,
// which must outlive the outcomes. Rows whose split is "calibrate" calibrate the predictions and are not scored. The
// exception is rows of one GPU: nothing is fitted to them, and all are scored.

/// NeuSight. One GPU: op costs of a built-in network, forward and backward, and the addition of the gradients to those
/// of the previous step. Tensor ranks: that for one rank, with the collectives. Replicas: that with the all-reduce of
/// the gradients. Pipelines with microbatches: run_plan(). `roofline`: uses the costs of `--costs roofline`.
std::vector<Outcome> predict_neusight(const MeasuredSource& source, const AllReduceTimes& all_reduce,
                                      bool roofline = false);

/// Rows of one GPU, for all frameworks, by the op costs of a built-in network with its usual optimizer. The set has a
/// part for each precision.
std::vector<Outcome> predict_one_gpu(const MeasuredSource& source, const std::string& set, bool roofline = false);

/// Replicas (and pipelines of them) from the one-GPU row with equal model, framework, kind, precision, microbatch and
/// sequence length:
///
///     t_n = a t_1 (1 + s z_n) + T + (m - 1) e
///
///     t_1   time of one microbatch on one GPU
///     a     microbatches per replica
///     s     relative standard deviation among GPUs of one kind: replica_spread()
///     z_n   expected maximum of n standard normal values, since a step waits for its slowest GPU: the normal
///           quantile at (n - 3/8) / (n + 1/4) (G. Blom: Statistical Estimates, 1958)
///     T     all-reduce of the gradients: within a node in buckets of 25 MiB, between k nodes 2 (k - 1) / k of the
///           bytes over kNetworkShare of a node's cards. 2 bytes per parameter in half precision, otherwise 4; also 4
///           in AMP, whose parameters are float32. It does not overlap the backward pass
///     e     extra time per further GPU of a node, with m GPUs used in it: mean over the calibrating rows of several
///           GPUs of that model and framework; 0 without such rows
///
/// GPTs on several tensor ranks are predicted by transformer_seconds(), with the mean scale from the framework's rows
/// of one GPU.
std::vector<Outcome> predict_replicas(const MeasuredSource& source, const AllReduceTimes& all_reduce, double spread);

/// Relative standard deviation of the step time among GPUs of one kind: the root mean square of ln(a / b) / sqrt(2)
/// over pairs of `calibrate` rows of one GPU that differ only in the memory of their V100-SXM2, with steps a and b. 0
/// if there is no such pair.
double replica_spread(const MeasuredSource& source);

/// Fully sharded training (ZeRO 3) of GPT by the work of a layer. Two constants per generation of GPU are fitted to its
/// `calibrate` rows: the share of the peak that linear layers reach, and the bytes that all other ops move.
std::vector<Outcome> predict_sharded(const MeasuredSource& source, const AllReduceTimes& all_reduce);

/// Pipelines by run_plan() with the costs of a built-in GPT's layers, as a ratio to the model's `calibrate` row.
std::vector<Outcome> predict_pipelines(const MeasuredSource& source);

/// Replicas, ranks and stages of GPT on one node by run_plan(). The times of a layer and of the rest are fitted to the
/// `calibrate` rows for each tensor degree, width, microbatch and sequence; other degrees are extrapolated from those
/// of 1 and 2.
std::vector<Outcome> predict_profiled(const MeasuredSource& source, const AllReduceTimes& all_reduce);

/// Ratios of measured times of a layer's kernels to layer_times() (gpt_rank.hpp).
struct LayerScale {
  double forward = 1, backward = 1;
  std::size_t gpus = 1;  // number of GPUs in the measurement, which shows the slowest
};
/// Mean ratios, measured to predicted, over the `calibrate` rows of one layer with times of both passes (Korthikanti et
/// al., table 4). The predicted collectives among the ranks are subtracted from the measured times.
LayerScale layer_scale(const MeasuredSource& source, const AllReduceTimes& all_reduce);
/// Scales by `key`, one for both passes, with which transformer_seconds() matches on average the `calibrate` steps of
/// GPTs on `gpus` GPUs with that key.
std::map<std::string, LayerScale> step_scales(const MeasuredSource& source, const AllReduceTimes& all_reduce,
                                              std::size_t gpus,
                                              const std::function<std::string(const MeasuredRow&)>& key);
/// The scale for the slowest of `gpus` GPUs, by s = `spread` and z_n of predict_replicas().
LayerScale spread_among(const LayerScale& scale, double spread, std::size_t gpus);

/// GPTs on any number of nodes, by run_plan():
///
///     layer       kernels times the scale, and the all-reduces of its ranks; each pass takes at least the time in
///                 which the host launches it
///     all-reduces within a node as measured, between nodes by NCCL's model over kNetworkShare of the node's cards;
///                 since 2022 Megatron-LM overlaps those of the backward pass with the gradients of weights
///     transfers   between stages: a share from each rank over its own card; sender and receiver wait
///     after them  the all-reduce of the replicas' gradients, 2 bytes per parameter, and the update, not overlapped
///     ZeRO 3      a layer's weights are gathered during each of its passes, and its gradients scattered
///
/// If a source does not give microbatch, chunks or recomputation, the fastest predicted choice that fits in memory is
/// taken. ZeRO 3 uses the scale of `sharded` for its generation of GPU.
std::vector<Outcome> predict_transformers(const MeasuredSource& source, const AllReduceTimes& all_reduce,
                                          const LayerScale& scale, const std::map<std::string, LayerScale>& sharded,
                                          double spread);
/// Predicted step of one such row, in seconds.
double transformer_seconds(const MeasuredRow& row, const std::string& source, const AllReduceTimes& all_reduce,
                           const LayerScale& scale);

}  // namespace trainyard::bench
