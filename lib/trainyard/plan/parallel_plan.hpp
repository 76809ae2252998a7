#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/context_exchange.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/plan/pipeline_schedule.hpp"

namespace trainyard {

/// What is recomputed before the backward pass: nothing; the scores of attention alone (attention_scores); each block
/// of layers (block_of) from its input; each block, and in numbered ones ("h.3") also the ops whose results the
/// backward pass does not read, as Megatron-LM and DeepSpeed do; the whole stage from its input. Plan search never
/// chooses `full` and `stages`.
enum class StageRecompute : std::uint8_t { no, attention, blocks, full, stages };

/// Recomputation of a stage: its first `layers` layers (all of them if it has no more) recompute `what`.
struct StageRecomputation {
  static constexpr std::size_t kAll = static_cast<std::size_t>(-1);

  StageRecomputation(StageRecompute again = StageRecompute::no, std::size_t first = kAll)
      : what(first > 0 ? again : StageRecompute::no), layers(what == StageRecompute::no ? kAll : first) {}
  /// Recomputation of layer i of the stage.
  StageRecompute of(std::size_t i) const { return i < layers ? what : StageRecompute::no; }

  friend bool operator==(const StageRecomputation&, const StageRecomputation&) = default;

  StageRecompute what;
  std::size_t layers;
};

/// Degrees of parallelism within a layer.
struct LayerDegree {
  std::size_t ranks = 1;    // tensor parallelism: ranks that divide the features
  bool sequence = false;    // sequence parallelism: the ranks divide the sequence between the products
  std::size_t context = 1;  // context parallelism: ranks that divide the sequence throughout, each with all weights
  ContextExchange exchange = ContextExchange::all_gather;
  std::size_t experts = 1;  // expert parallelism: replicas that hold different experts of each mixture
  std::size_t slices = 1;   // slices of a microbatch: one computes while the ranks communicate for another
  std::size_t kind = 0;     // device kind, from PlanCosts::kind; 0: for each op the fastest device of all

  bool communicates() const { return ranks * context * experts > 1; }
  friend auto operator<=>(const LayerDegree&, const LayerDegree&) = default;
};

/// Replicas and ranks of the stages of one device in the row (ParallelPlan).
struct StageDegrees {
  std::size_t data = 1;
  LayerDegree tensor = {};

  std::size_t devices() const { return data * tensor.ranks; }
  friend auto operator<=>(const StageDegrees&, const StageDegrees&) = default;
};

/// Order in which a plan takes heterogeneous devices: as given, or sorted by the time of all ops and then by memory,
/// with the devices of a host together.
enum class DeviceOrder : std::uint8_t { given, best_first, best_last };
std::string_view name_of(DeviceOrder order);

/// Number of replicas that divide a stage's optimizer state (ZeRO 1 and above), gradients (2 and above), weights (3).
/// If groups of `experts` replicas hold different experts, the replicas with the same experts divide those of experts.
struct Shards {
  Shards(std::size_t zero, std::size_t replicas, std::size_t experts = 1)
      : state(zero >= 1 ? replicas : 1),
        gradients(zero >= 2 ? replicas : 1),
        weights(zero >= 3 ? replicas : 1),
        expert_state(zero >= 1 ? replicas / experts : 1),
        expert_gradients(zero >= 2 ? replicas / experts : 1),
        expert_weights(zero >= 3 ? replicas / experts : 1) {}

  /// Time to accumulate a microbatch's gradients, or a replica's share of them. `whole` is the time for all, of which
  /// `of_experts` is for those of experts.
  Nanoseconds accumulation(Nanoseconds whole, Nanoseconds of_experts) const {
    const std::int64_t experts = std::min(whole, of_experts).count;
    return Nanoseconds{(whole.count - experts) / static_cast<std::int64_t>(gradients) +
                       experts / static_cast<std::int64_t>(expert_gradients)};
  }
  /// Bytes that a replica holds for these weights and, if `with_gradients`, for their gradients.
  double held(double dense, double of_experts, bool with_gradients) const {
    const auto copies = [&](std::size_t of_weights, std::size_t of_gradients) {
      return 1 / static_cast<double>(of_weights) + (with_gradients ? 1 / static_cast<double>(of_gradients) : 0);
    };
    return copies(weights, gradients) * dense + copies(expert_weights, expert_gradients) * of_experts;
  }

  std::size_t state, gradients, weights, expert_state, expert_gradients, expert_weights;
};

/// A plan that trains a chain of layers on many devices. The batch is divided into d shares; c context ranks divide
/// each share's sequences, t tensor ranks each layer, and p pipeline devices the chain. The plan uses d c t p devices
/// and holds the weights in d c replicas.
///
/// The p pipeline devices form the row: device i of the row stands for all replicas and ranks of its stages. If the
/// stages' degrees differ (`degrees`), the replicas of each stage divide every microbatch among themselves, and the
/// plan uses the devices of all stages together.
struct ParallelPlan {
  std::size_t data = 1, tensor = 1;  // d, t
  std::size_t context = 1;           // c
  ContextExchange exchange = ContextExchange::all_gather;
  bool sequence = false;                           // sequence parallelism: see LayerDegree
  std::vector<StageDegrees> degrees = {};          // by device in the row, if they differ; then d and t are 1
  std::vector<std::size_t> cuts = {};              // layers at which a new stage begins, ascending
  std::size_t chunks = 1;                          // stages per device: chunks_of(schedule)
  std::size_t microbatch = 1;                      // samples, from a share of the batch; with `degrees`, per stage
  std::vector<StageRecomputation> recompute = {};  // by stage; empty: no recomputation
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  /// ZeRO stage. From 1 on, replicas shard the optimizer state, and each updates its shard. From 2 on, they
  /// reduce-scatter the gradients of each microbatch in its backward pass. With 3, they also shard the weights and
  /// gather them for each pass.
  std::size_t zero = 0;
  /// Consecutive replicas that hold different experts of each mixture, and exchange tokens.
  std::size_t experts = 1;
  /// Slices of every microbatch, for plans of one stage. Their ops alternate, so that the collectives of one slice
  /// overlap the ops of another (Domino: G. Wang et al.: Eliminating Communication in LLM Training via Generic Tensor
  /// Slicing and Overlapping, 2024).
  std::size_t slices = 1;
  /// Bucket size: the least bytes of gradients that replicas all-reduce at a time, from a stage's last layer on.
  /// 0: PlanCosts::bucket.
  Bytes bucket = {};
  DeviceOrder order = DeviceOrder::given;

  std::size_t stages() const { return cuts.size() + 1; }
  std::size_t devices_in_row() const { return stages() / chunks; }  // p
  std::size_t replicas() const { return data * context; }
  std::size_t devices() const { return first_device(devices_in_row()); }
  /// Replicas and ranks of device i in the row.
  StageDegrees degrees_of(std::size_t i) const {
    return degrees.empty() ? StageDegrees{replicas(), layer_degree()} : degrees[i];
  }
  /// Whether any stage has several replicas, so that gradients are all-reduced.
  bool has_replicas() const {
    return replicas() > 1 || std::ranges::any_of(degrees, [](const StageDegrees& each) { return each.data > 1; });
  }
  /// ZeRO shards of the stages of device i in the row.
  Shards shards(std::size_t i = 0) const { return {zero, degrees.empty() ? replicas() : degrees[i].data, experts}; }
  /// Samples of a microbatch that a replica of device i in the row computes.
  std::size_t samples_of(std::size_t i) const { return degrees.empty() ? microbatch : microbatch / degrees[i].data; }
  /// First of the devices that device i in the row stands for.
  std::size_t first_device(std::size_t i) const {
    if (degrees.empty()) return i * replicas() * tensor;
    std::size_t before = 0;
    for (std::size_t j = 0; j < i; ++j) before += degrees[j].devices();
    return before;
  }
  /// Number of stages that recompute `what` in some or all of their layers.
  std::size_t recomputing(StageRecompute what) const {
    return static_cast<std::size_t>(std::ranges::count(recompute, what, &StageRecomputation::what));
  }
  LayerDegree layer_degree() const { return {tensor, sequence, context, exchange, experts, slices}; }

  friend bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
};

/// Description for people: "data 4, tensor 2 with sequence parallelism, 8 stages (1f1b), microbatches of 2, ZeRO 1,
/// recomputing 3 of 8 stages". Variants are "recomputing attention of 3 of 8 stages", "recomputing 2 to 5 layers of 3
/// of 8 stages", "microbatches of 2 in 2 slices", and "data x tensor 4x1 2x2 ..." if the stages' degrees differ.
std::string describe(const ParallelPlan& plan);

/// Memory of a layer's backward pass, besides the activations kept from the forward pass.
struct BackwardMemory {
  Bytes working;           // peak of workspace and of tensors that are neither kept nor weight gradients
  Bytes largest_gradient;  // largest weight gradient that a single op makes
  Bytes for_weights;       // per microbatch: tensors of either pass that the weight gradients read
  Bytes net = {};          // peak of `working` less the kept activations that were read and freed by then
  Bytes with_scores = {};  // `net` with the scores, for layers that recompute attention

  friend bool operator==(const BackwardMemory&, const BackwardMemory&) = default;
};

/// Cost of a layer on one of its t c ranks. Times are of one microbatch and include the collectives among the ranks.
/// `input` and `output` are the bytes received from and sent to the neighbouring layers, `saved` the activations kept
/// for the backward pass, all per microbatch. `weights` (gradients take as much) and optimizer `state` are resident.
struct LayerCost {
  Nanoseconds forward = {}, input_gradient = {}, weight_gradient = {};
  Bytes input = {}, output = {}, saved = {};
  Bytes weights = {}, state = {};
  Bytes scores = {};                             // part of `saved` that recomputation of attention frees
  Nanoseconds scores_forward = {};               // forward time that recomputation of attention repeats
  Nanoseconds accumulation = {};                 // adds the weight gradients to those of earlier microbatches
  Nanoseconds expert_accumulation = {};          // part of it: those of experts that replicas divide
  Nanoseconds rank_sums = {};                    // once a step: sums gradients that are partial on each tensor rank
  Bytes expert_weights = {}, expert_state = {};  // part of `weights` and `state`: experts that replicas divide
  Nanoseconds launches = {};                     // launches of the update's kernels; sharding does not reduce them
  std::optional<Nanoseconds> again = {};         // forward time that recomputation of blocks repeats; none: `forward`
  Nanoseconds exchanged = {};                    // part of `forward` and `input_gradient`: waits for other ranks
  std::optional<BackwardMemory> backward_memory = {};  // known for all layers or for none
  /// Weights shared with the earlier layer `tied_to`, and their state. A device without that layer holds copies.
  Bytes tied_weights = {}, tied_state = {};
  std::size_t tied_to = 0;

  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

/// Bytes of the layer that a microbatch holds from its forward to its backward pass, and the time that recomputation
/// adds to the backward pass.
Bytes held_of(const LayerCost& cost, StageRecompute recompute);
Nanoseconds again_of(const LayerCost& cost, StageRecompute recompute);

/// The problem that plans solve: a chain of layers, a batch, devices, and cost functions that the caller supplies.
/// Devices are numbered along the row, from 0 to p - 1, unless stated otherwise.
struct PlanCosts {
  std::size_t layers = 0;
  std::size_t batch = 1;             // samples per step
  std::size_t devices = 1;           // available devices; a plan may use fewer
  std::optional<Bytes> memory = {};  // of the device with the most memory; none: unlimited
  /// Fraction of `memory` that a device of the row has. Empty function: 1.
  std::function<double(const ParallelPlan&, std::size_t device)> share_of_memory = {};
  /// The LayerDegree::kind of the `count` devices from `first` on, here in plan order. With it, layer() charges each op
  /// the time of the slowest of them. Empty function: all devices are equal.
  std::function<std::size_t(std::size_t first, std::size_t count)> kind = {};
  std::vector<LayerDegree> layer_degrees = {{1}};
  bool overlap = false;  // plans of one stage all-reduce gradients while the last backward task runs
  Bytes bucket = {};     // least bytes of gradients per all-reduce; 0: all-reduces are per layer in plans of one
                         // stage, and per device in plans of several
  /// Cost of a layer on one rank, for a microbatch of `samples` samples.
  std::function<LayerCost(std::size_t layer, std::size_t samples, LayerDegree tensor)> layer = {};
  /// Announces the pairs (samples, degree) that layer() will be called with, so that several threads can compute them
  /// at once. Empty function: layer() computes them one by one.
  std::function<void(const std::set<std::pair<std::size_t, LayerDegree>>&, unsigned threads)> prepare_layers = {};
  /// Time of a transfer between two devices of the row. `bytes` are per microbatch and per replica of the device with
  /// fewer replicas.
  std::function<Nanoseconds(const ParallelPlan&, std::size_t from, std::size_t to, Bytes bytes)> transfer = {};
  /// Time to sum the gradients of `weights` bytes over the replicas of a device (degrees_of), additions included.
  /// ZeRO 0: an all-reduce. ZeRO 1 and 2: a reduce-scatter of gradients and the all-gather of updated weights, half of
  /// the time each. ZeRO 3: a reduce-scatter, which takes as long as an all-gather of the same weights.
  std::function<Nanoseconds(const ParallelPlan&, std::size_t device, Bytes weights)> all_reduce = {};
  /// all_reduce() of experts' weights, over the replicas that hold the same experts.
  std::function<Nanoseconds(const ParallelPlan&, std::size_t device, Bytes weights)> expert_all_reduce = {};
  /// Part of all_reduce() that occupies the device itself, so that it runs no task. Empty function: 0.
  std::function<Nanoseconds(const ParallelPlan&, std::size_t device, Bytes weights)> additions = {};
  /// Time of the optimizer's update of `weights` bytes, of which each replica updates 1/shards, on devices of a kind.
  /// Excludes LayerCost::launches.
  std::function<Nanoseconds(Bytes weights, std::size_t shards, std::size_t kind)> update = {};
  /// Whether the collectives among the ranks of a device occupy the same links as all_reduce(), for their full time.
  /// Empty function: never.
  std::function<bool(const ParallelPlan&, std::size_t device)> ranks_share_links = {};

  /// The degree of the layers on device i of the row, with the kind of its devices.
  LayerDegree degree_of(const ParallelPlan& plan, std::size_t i) const {
    const StageDegrees own = plan.degrees_of(i);
    LayerDegree degree = own.tensor;
    if (kind) degree.kind = kind(plan.first_device(i), own.devices());
    return degree;
  }
  /// The memory of each device that device i of the row stands for.
  std::optional<Bytes> memory_of(const ParallelPlan& plan, std::size_t i) const {
    if (!memory || !share_of_memory) return memory;
    return Bytes{static_cast<std::int64_t>(static_cast<double>(memory->count) * share_of_memory(plan, i))};
  }
};

/// A plan's training step, estimated by events. F is a forward task, B the input gradient, W the weight gradient:
///
///     start of a task             when the previous task in pipeline_tasks() has ended and the input has arrived
///     F of stage s                needs F of stage s - 1 on the microbatch
///     B of stage s                needs B of stage s + 1, or on the last stage its own F; W needs B of its stage
///     time of a task              the sum over the stage's layers. B of a stage that recomputes adds the time of F, or
///                                 of the scores. W adds accumulation, except for the first microbatch
///     ZeRO 2 and 3                accumulation is of shares. The sums of each microbatch's gradients occupy the device
///                                 with their additions and then the links, after B or W. If ranks exchange over these
///                                 links (ranks_share_links), a task ends once the links have done all of its and the
///                                 earlier tasks' exchanges except the last bucket
///     ZeRO 3                      F takes at least the gather of the stage's weights, and B at least that and the
///                                 scatter of all buckets but the last. The first task waits for the first bucket
///     transfer                    starts at the end of its producer. Each ordered pair of devices has one link, which
///                                 carries one transfer at a time, first come first served
///     after the last task         a device sums gradients with the other replicas (with ZeRO 2 and several stages it
///                                 only gathers updated weights), sums those that are partial on its tensor ranks, and
///                                 updates
///     PlanCosts::overlap          with one stage, gradients are summed in buckets from the last layer on. Each starts
///                                 once the last task has left its layers. Additions of earlier buckets delay that
///                                 task, and so do their updates once they are summed
///     tied weights                the home device and the device with copies then exchange the summed gradients, and
///                                 update these weights afterwards
///
/// The peak memory of a device is the sum of
///
///   - weights and gradients. ZeRO 2 and 3 hold shares, and two buckets being scattered; ZeRO 3 adds one gathered
///     bucket, or four if the next microbatch gathers too. If blocks are recomputed, such a bucket is at least a layer;
///   - optimizer state, or its ZeRO share. Shares of experts are those of the replicas that hold the same ones;
///   - the largest sum of the activations in flight. From the start of F to the end of W, a microbatch holds what each
///     layer saves. A stage that recomputes holds the inputs of layers only, or everything except scores;
///   - the largest working set of a layer that recomputes.
///
/// If LayerCost::backward_memory is known, three terms are finer. Gradients of the only microbatch, or of one that
/// scatters them, count from when they are made. From the end of B to the end of W, a microbatch holds what W reads. A
/// task that makes gradients adds its largest working set (BackwardPeak).
struct PlanStep {
  Nanoseconds step;                              // the latest end
  std::vector<std::vector<Nanoseconds>> starts;  // by device: starts of its tasks, in their order
  std::vector<Bytes> peaks;                      // by device of the row; each divided by its share_of_memory
  std::vector<std::size_t> held;                 // by device: most microbatches of its chunks in flight at once

  Bytes excess(std::optional<Bytes> memory) const;  // sum of the peaks' bytes beyond `memory`; 0 without a limit
};

/// Estimates the plan's step. Throws InputError ("plan", "microbatches") as check_plan does. O(tasks).
PlanStep run_plan(const PlanCosts& costs, const ParallelPlan& plan);

/// Throws InputError if the plan is not valid. Code "plan": a degree that does not divide, stages without layers, more
/// devices than available, slices with several stages or with no communication to hide, ZeRO above 3. The help text
/// names the nearest valid plan. Code "microbatches": see check_microbatches().
void check_plan(const PlanCosts& costs, const ParallelPlan& plan);

}  // namespace trainyard
