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

/// Recomputation before the backward pass: nothing; the scores of attention alone (attention_scores); each block of
/// layers (block_of) from what comes into it; the whole stage from what comes into that, which plans do not choose.
enum class StageRecompute : std::uint8_t { no, attention, blocks, stages };

/// What a stage computes again of its first `layers`, or of all where it has no more.
struct StageRecomputation {
  static constexpr std::size_t kAll = static_cast<std::size_t>(-1);

  StageRecomputation(StageRecompute again = StageRecompute::no, std::size_t first = kAll)
      : what(first > 0 ? again : StageRecompute::no), layers(what == StageRecompute::no ? kAll : first) {}
  /// What layer i of the stage computes again.
  StageRecompute of(std::size_t i) const { return i < layers ? what : StageRecompute::no; }

  friend bool operator==(const StageRecomputation&, const StageRecomputation&) = default;

  StageRecompute what;
  std::size_t layers;
};

/// Among how many devices a replica's layers are divided.
struct LayerDegree {
  std::size_t ranks = 1;    // tensor ranks, by features
  bool sequence = false;    // and between products by the sequence
  std::size_t context = 1;  // by the sequence throughout, with as many copies of the weights
  ContextExchange exchange = ContextExchange::all_gather;
  std::size_t experts = 1;  // replicas that hold different experts of each mixture
  std::size_t slices = 1;   // of each microbatch: while ranks of one communicate, others compute
  std::size_t kind = 0;     // of these devices, by PlanCosts::kind; 0: the fastest of all for each op

  bool communicates() const { return ranks * context * experts > 1; }
  friend auto operator<=>(const LayerDegree&, const LayerDegree&) = default;
};

/// Replicas and ranks of the stages of one device in the row.
struct StageDegrees {
  std::size_t data = 1;
  LayerDegree tensor = {};

  std::size_t devices() const { return data * tensor.ranks; }
  friend auto operator<=>(const StageDegrees&, const StageDegrees&) = default;
};

/// The order in which a plan takes the devices, where they differ: as they are, or by the time of all ops and then by
/// memory, those of a host together.
enum class DeviceOrder : std::uint8_t { given, best_first, best_last };
std::string_view name_of(DeviceOrder order);

/// Among how many of the replicas of a stage its optimizer's state, gradients and weights are divided: ZeRO 1, 2, 3.
struct Shards {
  Shards(std::size_t zero, std::size_t replicas)
      : state(zero >= 1 ? replicas : 1), gradients(zero >= 2 ? replicas : 1), weights(zero >= 3 ? replicas : 1) {}

  /// Adds a microbatch's gradients, or a replica's share of them, to those of earlier ones.
  Nanoseconds accumulation(Nanoseconds whole) const {
    return Nanoseconds{whole.count / static_cast<std::int64_t>(gradients)};
  }
  /// How many times all weights a replica holds as weights, and as gradients where these are there.
  double copies(bool with_gradients = true) const {
    return 1 / static_cast<double>(weights) + (with_gradients ? 1 / static_cast<double>(gradients) : 0);
  }

  std::size_t state, gradients, weights;
};

/// How a chain of layers is trained on many devices. With c ranks that share the sequence in each of d shares of the
/// batch, t tensor ranks and p stages in a row, d c t p devices take part, and the weights are there d c times: in
/// replicas, each of which computes its part of its share's microbatches, each rank of a stage its part of every layer.
/// Where stages differ (`degrees`), the replicas of each divide every microbatch among themselves, and devices are
/// those of all stages together.
struct ParallelPlan {
  std::size_t data = 1, tensor = 1;  // d, t
  std::size_t context = 1;           // c
  ContextExchange exchange = ContextExchange::all_gather;
  bool sequence = false;                           // ranks share the sequence too, between the products of the layers
  std::vector<StageDegrees> degrees = {};          // by device in the row, where they differ; then d and t are 1
  std::vector<std::size_t> cuts = {};              // layers at which a new stage begins, ascending
  std::size_t chunks = 1;                          // stages a device: chunks_of(schedule)
  std::size_t microbatch = 1;                      // samples: of a share of the batch, or with `degrees` of a stage
  std::vector<StageRecomputation> recompute = {};  // by stage; empty: nothing
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  /// ZeRO stage: from 1 on replicas share the optimizer's state, and each updates its part; from 2 on they scatter the
  /// gradients of each microbatch in its backward pass; with 3 they share weights too, and gather them for each pass.
  std::size_t zero = 0;
  /// Consecutive replicas that hold different experts of each mixture, and exchange tokens.
  std::size_t experts = 1;
  /// Parts of every microbatch, of one stage: their ops take turns, so that collectives of ranks run beside ops
  /// (Domino: G. Wang et al.: Eliminating Communication in LLM Training via Generic Tensor Slicing and Overlapping,
  /// 2024).
  std::size_t slices = 1;
  /// Gradients of a stage that replicas add at a time, from its last layer on: those of so many bytes or more. 0:
  /// PlanCosts::bucket.
  Bytes bucket = {};
  DeviceOrder order = DeviceOrder::given;

  std::size_t stages() const { return cuts.size() + 1; }
  std::size_t devices_in_row() const { return stages() / chunks; }  // p
  std::size_t replicas() const { return data * context; }
  std::size_t devices() const { return first_device(devices_in_row()); }
  /// Degrees of device i in the row.
  StageDegrees degrees_of(std::size_t i) const {
    return degrees.empty() ? StageDegrees{replicas(), layer_degree()} : degrees[i];
  }
  /// Whether a stage has replicas, whose gradients are summed.
  bool has_replicas() const {
    return replicas() > 1 || std::ranges::any_of(degrees, [](const StageDegrees& each) { return each.data > 1; });
  }
  /// ZeRO's, of the stages of device i in the row.
  Shards shards(std::size_t i = 0) const { return {zero, degrees.empty() ? replicas() : degrees[i].data}; }
  /// Samples of a microbatch that a replica computes there.
  std::size_t samples_of(std::size_t i) const { return degrees.empty() ? microbatch : microbatch / degrees[i].data; }
  /// The devices of those before it: the first of its own.
  std::size_t first_device(std::size_t i) const {
    if (degrees.empty()) return i * replicas() * tensor;
    std::size_t before = 0;
    for (std::size_t j = 0; j < i; ++j) before += degrees[j].devices();
    return before;
  }
  /// Stages that compute this again, of some or all layers.
  std::size_t recomputing(StageRecompute what) const {
    return static_cast<std::size_t>(std::ranges::count(recompute, what, &StageRecomputation::what));
  }
  LayerDegree layer_degree() const { return {tensor, sequence, context, exchange, experts, slices}; }

  friend bool operator==(const ParallelPlan&, const ParallelPlan&) = default;
};

/// "data 4, tensor 2 with sequence parallelism, 8 stages (1f1b), microbatches of 2, ZeRO 1, recomputing 3 of 8 stages",
/// "... attention of 3 of 8", "... 2 to 5 layers of 3 of 8"; "microbatches of 2 in 2 slices"; "data x tensor 4x1, 2x2,
/// ..." where stages differ.
std::string describe(const ParallelPlan& plan);

/// What a layer's backward pass holds besides what is kept of the forward pass.
struct BackwardMemory {
  Bytes working;           // at most at once: workspace, and what is neither kept nor a gradient of weights
  Bytes largest_gradient;  // of weights, that one op makes
  Bytes for_weights;       // of a microbatch: what gradients of weights read, made in either pass
  Bytes net = {};          // `working` less what was kept and is read by then;
  Bytes with_scores = {};  // and where scores are computed again, with these

  friend bool operator==(const BackwardMemory&, const BackwardMemory&) = default;
};

/// Time of one of t c ranks for a layer and one microbatch, collectives among the ranks included, and the bytes that it
/// holds of the layer: sent to and received from its neighbours, and kept for the backward pass, for the microbatch;
/// weights (gradients take as much) and optimizer state for good.
struct LayerCost {
  Nanoseconds forward = {}, input_gradient = {}, weight_gradient = {};
  Bytes input = {}, output = {}, saved = {};
  Bytes weights = {}, state = {};
  Bytes scores = {};                             // of what is kept, what recomputation of attention leaves out,
  Nanoseconds scores_forward = {};               // and the time of the forward pass that it repeats
  Nanoseconds accumulation = {};                 // adds the gradients of weights to those of earlier microbatches
  Nanoseconds rank_sums = {};                    // once a step, of gradients that are terms on each tensor rank
  Bytes expert_weights = {}, expert_state = {};  // of weights and state, those of experts that replicas divide
  Nanoseconds launches = {};                     // of updates, which no replica has less of by sharing state
  std::optional<Nanoseconds> again = {};         // of the forward pass, what recomputation repeats; none: all of it
  Nanoseconds exchanged = {};                    // of `forward` and `input_gradient`, what ranks wait for each other
  std::optional<BackwardMemory> backward_memory = {};  // of all layers or of none
  /// Weights, and their state, that an earlier layer holds: a device without that has copies of them.
  Bytes tied_weights = {}, tied_state = {};
  std::size_t tied_to = 0;

  friend bool operator==(const LayerCost&, const LayerCost&) = default;
};

/// What a microbatch holds of the layer from its forward to its backward pass, and the time that the latter takes
/// longer.
Bytes held_of(const LayerCost& cost, StageRecompute recompute);
Nanoseconds again_of(const LayerCost& cost, StageRecompute recompute);

/// The input of plans: a chain of layers, devices, and costs, by functions of the caller's.
struct PlanCosts {
  std::size_t layers = 0;
  std::size_t batch = 1;             // samples of a step
  std::size_t devices = 1;           // at hand; a plan need not use all
  std::optional<Bytes> memory = {};  // of the device that has most
  /// The share of it that the devices of device i of the pipeline have; none: all of it.
  std::function<double(const ParallelPlan&, std::size_t device)> share_of_memory = {};
  /// What devices `first` on, so many of them, are: LayerDegree::kind with which layer() has what the slowest of them
  /// takes for each op. None: all are equal.
  std::function<std::size_t(std::size_t first, std::size_t count)> kind = {};
  std::vector<LayerDegree> layer_degrees = {{1}};
  bool overlap = false;  // with one stage, gradients are added while the last backward task runs,
  Bytes bucket = {};     // those of layers of so many bytes of weights or more at a time; 0: one stage those of each
                         // layer, several those of a device, all at once
  /// One layer for a microbatch of so many samples, on one of the ranks.
  std::function<LayerCost(std::size_t layer, std::size_t samples, LayerDegree tensor)> layer = {};
  /// Told which of these will be asked for, by samples and ranks, so that several threads may find them out together.
  /// None: layer() is asked for one after the other.
  std::function<void(const std::set<std::pair<std::size_t, LayerDegree>>&, unsigned threads)> prepare_layers = {};
  /// The time of a transfer from one device of the pipeline to another, 0 to p - 1: what a replica of the one that has
  /// fewer of them takes or makes of a microbatch.
  std::function<Nanoseconds(const ParallelPlan&, std::size_t from, std::size_t to, Bytes bytes)> transfer = {};
  /// The sum of the gradients of the replicas (degrees_of), on device i of the pipeline, additions included; where they
  /// share state (ZeRO 1 and 2), with the weights that they send each other after the update, half of the time; where
  /// they share weights (ZeRO 3), to each its part of the sum, as long as it takes to gather as many weights.
  std::function<Nanoseconds(const ParallelPlan&, std::size_t device, Bytes weights)> all_reduce = {};
  /// The sum of the gradients of experts' weights, among the replicas that hold the same ones.
  std::function<Nanoseconds(const ParallelPlan&, std::size_t device, Bytes weights)> expert_all_reduce = {};
  /// How long such a sum keeps the device itself, from whatever task; none: links alone make it.
  std::function<Nanoseconds(const ParallelPlan&, std::size_t device, Bytes weights)> additions = {};
  /// The optimizer on these weights, of which each replica does 1/shards, on such a kind of devices;
  /// LayerCost::launches besides.
  std::function<Nanoseconds(Bytes weights, std::size_t shards, std::size_t kind)> update = {};
  /// Whether what ranks of device i exchange holds the same links as such sums, for as long; none: of no plan.
  std::function<bool(const ParallelPlan&, std::size_t device)> ranks_share_links = {};

  /// The degree of the layers on device i of the pipeline.
  LayerDegree degree_of(const ParallelPlan& plan, std::size_t i) const {
    const StageDegrees own = plan.degrees_of(i);
    LayerDegree degree = own.tensor;
    if (kind) degree.kind = kind(plan.first_device(i), own.devices());
    return degree;
  }
  /// The memory of each device that is device i of the pipeline.
  std::optional<Bytes> memory_of(const ParallelPlan& plan, std::size_t i) const {
    if (!memory || !share_of_memory) return memory;
    return Bytes{static_cast<std::int64_t>(static_cast<double>(memory->count) * share_of_memory(plan, i))};
  }
};

/// A plan's training step, by events:
///
///     a task of a device starts   when the one before it in pipeline_tasks() has ended and its input is there
///     F of stage s                needs F of stage s - 1 on the microbatch
///     B of stage s                needs B of stage s + 1, the last stage's its F; W needs B of its stage
///     a task's time               the sum over the layers of its stage; B of a stage that recomputes has F's besides,
///                                 or that of the scores; W has accumulation's, but for the first microbatch
///     with ZeRO 2 and 3           additions are of shares, and the sums of each microbatch's gradients keep the device
///                                 and, behind B or W, the links; where ranks exchange over these
///                                 (ranks_share_links), a task ends once links are through with all of its and the
///                                 earlier ones' but the last bucket
///     with ZeRO 3                 F and B take no less than to gather the stage's weights, B besides to scatter all
///                                 buckets but the last; the first task waits for the first bucket
///     a transfer                  from the end of its producer, over one link per ordered pair of devices, which
///                                 carries one at a time, first come first served
///     after its last task         a device adds its gradients to those of the other replicas (of several stages with
///                                 ZeRO 2, it gathers updated weights alone), then those that are terms on its tensor
///                                 ranks, and updates
///     with PlanCosts::overlap     and one stage, gradients are added in buckets from the last layer on, each once the
///                                 last task has left its layers, which it does later by the additions of those before
///                                 and, once they are summed, their updates
///     with copies                 of weights that an earlier layer holds, the two devices then send each other these
///                                 sums, before they update these weights
///
/// Memory of a device: its weights and gradients (or its shares: of ZeRO 2 and 3, and two buckets that are scattered;
/// of ZeRO 3 one that is gathered besides, or four where the next microbatch gathers too, of a layer at least where
/// blocks are recomputed), state (or its share; of experts its own), and what its microbatches hold, at most: from the
/// start of F to the end of W what each layer saves, or where the stage recomputes what comes into each layer, or all
/// but scores; and the largest layer's working set of those that recompute. Where LayerCost::backward_memory is known,
/// gradients of the only microbatch, or of one that scatters them, are there as they are made, from the end of B to the
/// end of W it holds what W reads, and a task that makes gradients has its largest working set where that is on
/// (BackwardPeak).
struct PlanStep {
  Nanoseconds step;                              // the latest end
  std::vector<std::vector<Nanoseconds>> starts;  // by device: of its tasks, in their order
  std::vector<Bytes> peaks;                      // by device of the pipeline; over its share_of_memory
  std::vector<std::size_t> held;                 // by device: microbatches of a chunk in flight, at most

  Bytes excess(std::optional<Bytes> memory) const;  // beyond it, all devices of the pipeline together
};

/// Throws InputError ("plan", "microbatches") as check_plan does. O(tasks).
PlanStep run_plan(const PlanCosts& costs, const ParallelPlan& plan);

/// Throws InputError ("plan"), which names the degree that does not divide, stages without layers, more devices than
/// there are, slices where there are several stages or nothing that they hide, ZeRO above 3, and the nearest plan that
/// can be.
void check_plan(const PlanCosts& costs, const ParallelPlan& plan);

}  // namespace trainyard
