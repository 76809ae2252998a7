// GPTs on many nodes by the kernels of a layer, the collectives of its plan, and run_plan().
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "gpt_rank.hpp"
#include "plans.hpp"
#include "predict.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/core/portable_math.hpp"
#include "trainyard/cost/nccl_model.hpp"

namespace trainyard::bench {
namespace {

constexpr double kHost = 1.05e-3;  // s to launch a layer's forward pass: shortest layers of vTrain's rows of two GPUs
constexpr double kAdamBytes = 31;  // per parameter, Adam in mixed precision
constexpr double kGradientBytes = 6;                   // per parameter and microbatch: read, and added to the sum
constexpr double kStateBytes = 18, kSharedBytes = 12;  // per parameter: all, and the part that ZeRO 1 shards
constexpr double kGrouped = 8;                         // key heads of Llama 3

/// Properties of a source's software.
struct Stack {
  std::string_view source;
  bool overlaps;  // Megatron-LM since 2022: the ranks' all-reduces overlap the products for gradients of weights, and
                  // these products accumulate over the microbatches
  bool fused;     // attention is one kernel
  bool sequence;  // default for sequence parallelism if the source does not give it
  bool recomputes_as_stated;  // the source's statement on recomputation is used
  double logit_bytes = 34;    // traffic per logit: in 16 bit, cast to 32, its softmax and their gradients
};
/// vTrain's rows of two GPUs cannot have used the recomputation that its configurations name: they would reach 189
/// TFLOP/s, while Megatron-LM reaches 137 on wider layers. Recomputation is therefore assumed only if the plan does not
/// fit in memory without it. The time of these rows outside their layers corresponds to 160 to 230 bytes per logit.
constexpr Stack kStacks[] = {
    {"korthikanti-2022", true, false, false, true},   {"megatron-sc21", false, false, false, true},
    {"large-llm-papers", true, false, true, true},    {"vtrain-multi-node", false, false, false, false, 200},
    {"mosaic-llm-foundry", false, true, false, true}, {"torchtitan", false, true, false, true},
    {"nvidia-nemo", true, false, false, true}};

const Stack& stack_of(const std::string& source) {
  const auto found = std::ranges::find(kStacks, source, &Stack::source);
  return found == std::end(kStacks) ? kStacks[1] : *found;
}

RankLayer rank_layer(const MeasuredRow& row, const Stack& stack) {
  const double h = told(row.hidden, "width"), heads = told(row.heads, "heads");
  const bool gated = row.family == "llama";
  return {.sequence = told(row.sequence, "sequence"),
          .hidden = h,
          .heads = heads,
          .feed_forward = row.feed_forward.value_or(4 * h),
          .key_width = gated ? kGrouped * h / heads : h,
          .gated = gated,
          .ranks = row.tensor,
          .shares_sequence = row.tensor > 1 && row.shares_sequence.value_or(stack.sequence),
          .fused = stack.fused || row.precision.find("TE") != std::string::npos};
}

/// Settings that the source may leave open.
struct Choice {
  double samples = 1;
  std::size_t chunks = 1;
  StageRecompute recompute = StageRecompute::no;
};

class Prediction {
 public:
  Prediction(const MeasuredRow& row, const AllReduceTimes& all_reduce, const LayerScale& scale, const Stack& stack)
      : row_(row), all_reduce_(all_reduce), scale_(scale), stack_(stack), gpu_(rank_gpu(row.gpu_kind)) {}

  const RankGpu& gpu() const { return gpu_; }
  double forward_sums(const RankLayer& of) const { return 2 * ranks_sum(2 * of.tokens() * of.hidden); }
  /// Seconds of the backward pass's collectives that are not hidden. They are as many as in the forward pass. With
  /// sequence parallelism each is a gather and a scatter, and the rows of the forward pass are gathered again. The
  /// all-reduces of column-parallel products (half of all) and that gather can overlap the gradients of weights.
  double backward_sums(const RankLayer& of, double weights) const {
    const double sum = forward_sums(of) / 2;
    if (!stack_.overlaps) return of.shares_sequence ? 3 * sum : 2 * sum;
    return of.shares_sequence ? sum + std::max(0.0, 2 * sum - weights) : std::max(0.0, 2 * sum - weights);
  }

  double step(RankLayer of, const Choice& choice) const {
    of.samples = choice.samples;
    MeasuredRow row = row_;
    row.microbatch = choice.samples;
    const auto layers = static_cast<std::size_t>(*row.layers);
    const PassTimes times = layer_times(of, gpu_);
    const double products = times.weights * scale_.backward;
    const double ahead = std::max(times.forward * scale_.forward + forward_sums(of), kHost);
    const double back = std::max(times.backward * scale_.backward + backward_sums(of, products), 2 * kHost);
    const double adding = stack_.overlaps ? 0 : kGradientBytes * of.parameters() / static_cast<double>(of.ranks);
    const PassTimes head = head_times(of, told(row.vocabulary, "vocabulary"), stack_.logit_bytes, gpu_);
    const double sum = ranks_sum(2 * of.tokens() * of.hidden), gather = gathers(of.parameters());
    const double hop = row.pipeline > 1 ? hop_seconds(of) * static_cast<double>(choice.chunks * row.pipeline) /
                                              static_cast<double>(layers)
                                        : 0;
    PlanCosts costs = bare_costs(row, layers, {});
    costs.layer = [&](std::size_t number, std::size_t, LayerDegree) {
      const double again = std::max(ahead, gather);  // the layer alone, without transfers and head
      double forward = again + hop, input = std::max(back, 2 * gather) - products + hop;
      double weights = products;
      if (number == 0) forward += sum;
      if (number + 1 == layers) {
        forward += head.forward * scale_.forward + sum;
        input += (head.backward - head.weights) * scale_.backward;
        weights += head.weights * scale_.backward;
      }
      if (choice.recompute == StageRecompute::blocks) input -= forward - again;
      LayerCost cost = layer_cost(forward, input, weights);
      cost.scores_forward = nanoseconds_from_seconds(times.scores * scale_.forward);
      cost.accumulation = nanoseconds_from_seconds(bytes_time(adding, gpu_));
      return cost;
    };
    const double tail = after_backward(of);
    costs.update = [&](Bytes, std::size_t, std::size_t) { return nanoseconds_from_seconds(tail); };
    const auto schedule = choice.chunks > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
    ParallelPlan plan = plan_of(row, layers, schedule, choice.chunks);
    plan.recompute.assign(plan.stages(), choice.recompute);
    return step_seconds(costs, plan);
  }

  /// Bytes on the first stage: weights, gradients, optimizer state, and activations of the microbatches in flight
  /// (Korthikanti et al., section 4.2: those of as many layers as the network has, and more if interleaved).
  double memory(RankLayer of, const Choice& choice) const {
    of.samples = choice.samples;
    const auto p = static_cast<double>(row_.pipeline), v = static_cast<double>(choice.chunks);
    const auto d = static_cast<double>(row_.data);
    const double state = row_.zero >= 3   ? kStateBytes / d
                         : row_.zero >= 1 ? kStateBytes - kSharedBytes + kSharedBytes / d
                                          : kStateBytes;
    double held = of.kept(), working = 0;
    if (choice.recompute == StageRecompute::no) held += of.scores_kept();
    if (choice.recompute == StageRecompute::blocks) {
      working = held + of.scores_kept();
      held = 2 * of.tokens() * of.hidden / (of.shares_sequence ? static_cast<double>(of.ranks) : 1);
    }
    const double microbatches = *row_.batch / (d * choice.samples);
    const double layers = *row_.layers * std::min(microbatches / p, v > 1 ? 1 + (p - 1) / (p * v) : 1);
    return state * held_parameters(of) + layers * held + working;
  }

 private:
  double held_parameters(const RankLayer& of) const {
    return (*row_.layers * of.parameters() / static_cast<double>(row_.pipeline) +
            told(row_.vocabulary, "vocabulary") * of.hidden) /
           static_cast<double>(row_.tensor);
  }
  /// Seconds of a collective by NCCL's model, for `members` ranks at a distance of `apart` from each other. Between
  /// nodes, the node's cards are shared with the other groups.
  double between(CollectiveKind kind, double bytes, std::size_t members, std::size_t apart) const {
    const std::size_t node = row_.gpus_per_node;
    std::size_t nodes = std::min(members, (members * apart + node - 1) / node);
    while (members % nodes != 0) ++nodes;
    NcclMachine machine{.intra = BytesPerSecond{kNvLink}};
    const std::string gpu = generation(row_.gpu_kind);
    machine.generation = gpu == "V100"   ? GpuGeneration::volta
                         : gpu == "H100" ? GpuGeneration::hopper
                                         : GpuGeneration::ampere;
    machine.inter = BytesPerSecond{kNetworkShare * network_of(row_) / static_cast<double>(std::min(apart, node))};
    return nccl_time(kind, Bytes{static_cast<std::int64_t>(bytes)}, members, nodes, machine).seconds;
  }
  double sum_of(double bytes, std::size_t members, std::size_t apart) const {
    if (members * apart > row_.gpus_per_node) return between(CollectiveKind::all_reduce, bytes, members, apart);
    const auto measured = all_reduce_.seconds(row_.gpu_kind, members, bytes);
    return measured ? *measured : between(CollectiveKind::all_reduce, bytes, members, apart);
  }
  double ranks_sum(double bytes) const { return row_.tensor > 1 ? sum_of(bytes, row_.tensor, 1) : 0; }
  /// Seconds to gather a layer's weights among the replicas; 0 without ZeRO 3.
  double gathers(double parameters) const {
    if (row_.zero < 3 || row_.data < 2) return 0;
    return between(CollectiveKind::all_gather, 2 * parameters / static_cast<double>(row_.tensor), row_.data,
                   row_.tensor);
  }
  /// Seconds of a transfer to the next stage: a share from each rank over its own card, then a gather among the ranks.
  /// Sender and receiver both wait for it.
  double hop_seconds(const RankLayer& of) const {
    const double bytes = 2 * of.tokens() * of.hidden, share = bytes / static_cast<double>(of.ranks);
    const bool far = row_.gpus > row_.gpus_per_node;
    const double card = far ? kNetworkShare * network_of(row_) / static_cast<double>(row_.gpus_per_node) : kNvLink;
    return share / card + (of.shares_sequence ? 0 : ranks_sum(bytes) / 2);
  }
  double after_backward(const RankLayer& of) const {
    const double own = held_parameters(of), shards = row_.zero >= 1 ? static_cast<double>(row_.data) : 1;
    const double sum = row_.zero >= 3 || row_.data < 2 ? 0 : sum_of(2 * own, row_.data, row_.tensor);
    return sum + bytes_time(kAdamBytes * own / shards, gpu_);
  }

  const MeasuredRow& row_;
  const AllReduceTimes& all_reduce_;
  const LayerScale scale_;
  const Stack& stack_;
  const RankGpu gpu_;
};

std::vector<StageRecompute> recomputations(const MeasuredRow& row, const Stack& stack) {
  if (!stack.recomputes_as_stated) return {StageRecompute::no, StageRecompute::blocks};
  if (row.recompute.empty()) return {StageRecompute::no, StageRecompute::attention, StageRecompute::blocks};
  if (row.recompute.starts_with("full")) return {StageRecompute::blocks};
  if (row.recompute.find("selective") != std::string::npos) return {StageRecompute::attention};
  return {StageRecompute::no};
}

/// The source's settings; those left open take all valid values, with microbatches up to 8.
std::vector<Choice> choices(const MeasuredRow& row, const Stack& stack) {
  const auto layers = static_cast<std::size_t>(told(row.layers, "layers"));
  const double batch = told(row.batch, "batch") / static_cast<double>(row.data);
  std::vector<double> samples{1, 2, 4, 8};
  if (row.microbatch) samples = {*row.microbatch};
  std::vector<std::size_t> chunks{1};
  if (row.chunks) {
    chunks = {static_cast<std::size_t>(*row.chunks)};
  } else if (row.schedule.starts_with("interleaved")) {
    for (std::size_t v = 2; v * row.pipeline <= layers; ++v)
      if (layers % (v * row.pipeline) == 0) chunks.push_back(v);
  }
  std::vector<Choice> all;
  for (const double each : samples)
    for (const std::size_t v : chunks)
      for (const StageRecompute recompute : recomputations(row, stack)) {
        const double microbatches = batch / each;
        if (microbatches != std::floor(microbatches)) continue;
        if (v > 1 && static_cast<std::size_t>(microbatches) % row.pipeline != 0) continue;
        all.push_back({each, v, recompute});
      }
  return all;
}

std::string set_name(const MeasuredSource& source, const MeasuredRow& row) {
  if (row.zero >= 3) return "ZeRO 3 by other software";
  if (source.name == "korthikanti-2022") return "Korthikanti";
  if (source.name == "megatron-sc21")
    return row.microbatch ? "Megatron SC21, table 2 without ZeRO" : "Megatron SC21, table 1";
  if (source.name == "large-llm-papers") return "MegaScale's Megatron-LM";
  if (source.name == "vtrain-multi-node") return "vTrain, several nodes";
  return source.name == "nvidia-nemo" ? "GPT by NeMo and PAXML" : source.name;
}

/// Seconds of both passes of one layer for one microbatch.
double layer_seconds(const MeasuredRow& row, const std::string& source, const AllReduceTimes& all_reduce,
                     const LayerScale& scale) {
  const Stack& stack = stack_of(source);
  RankLayer layer = rank_layer(row, stack);
  layer.samples = told(row.microbatch, "microbatch");
  const Prediction prediction{row, all_reduce, scale, stack};
  const PassTimes times = layer_times(layer, prediction.gpu());
  const double forward = times.forward * scale.forward + prediction.forward_sums(layer);
  const double again = row.recompute == "full"        ? forward
                       : row.recompute == "selective" ? times.scores * scale.forward
                                                      : 0;
  return forward + again + times.backward * scale.backward +
         prediction.backward_sums(layer, times.weights * scale.backward);
}

}  // namespace

LayerScale layer_scale(const MeasuredSource& source, const AllReduceTimes& all_reduce) {
  const Stack& stack = stack_of(source.name);
  double forward = 0, backward = 0, rows = 0;
  std::size_t gpus = 1;
  calibrate_with(source, [&](const MeasuredRow& row) {
    if (!row.forward_seconds || !row.backward_seconds) return;
    RankLayer layer = rank_layer(row, stack);
    layer.samples = told(row.microbatch, "microbatch");
    const Prediction prediction{row, all_reduce, {}, stack};
    const PassTimes times = layer_times(layer, prediction.gpu());
    forward += (*row.forward_seconds - prediction.forward_sums(layer)) / times.forward;
    backward += (*row.backward_seconds - prediction.backward_sums(layer, times.weights)) / times.backward;
    ++rows, gpus = row.gpus;
  });
  return rows > 0 ? LayerScale{forward / rows, backward / rows, gpus} : LayerScale{};
}

std::map<std::string, LayerScale> step_scales(const MeasuredSource& source, const AllReduceTimes& all_reduce,
                                              std::size_t gpus,
                                              const std::function<std::string(const MeasuredRow&)>& key) {
  std::map<std::string, std::pair<double, double>> found;  // missing time, and the time that scale 2 would add
  calibrate_with(source, [&](const MeasuredRow& row) {
    if (row.gpus != gpus || row.family != "gpt") return;
    const auto step = [&](double scale) { return transformer_seconds(row, source.name, all_reduce, {scale, scale}); };
    const double one = step(1), more = step(2) - one;  // nearly linear
    if (more < one / 2) return;                        // dominated by the host or by collectives
    auto& [missing, added] = found[key(row)];
    missing += 1 - one / *row.seconds, added += more / *row.seconds;
  });
  std::map<std::string, LayerScale> scales;
  for (const auto& [name, sums] : found) {
    const double scale = 1 + sums.first / sums.second;
    scales[name] = {scale, scale, gpus};
  }
  return scales;
}

LayerScale spread_among(const LayerScale& scale, double spread, std::size_t gpus) {
  const auto slowest = [&](std::size_t count) {
    const auto n = static_cast<double>(count);
    return 1 + (count > 1 ? spread * normal_quantile((n - 0.375) / (n + 0.25)) : 0);
  };
  const double longer = slowest(gpus) / slowest(scale.gpus);
  return {scale.forward * longer, scale.backward * longer, gpus};
}

double transformer_seconds(const MeasuredRow& row, const std::string& source, const AllReduceTimes& all_reduce,
                           const LayerScale& scale) {
  const Stack& stack = stack_of(source);
  const RankLayer layer = rank_layer(row, stack);
  const Prediction prediction{row, all_reduce, scale, stack};
  const DeviceKind* kind = find_device_kind(row.gpu_kind);
  const double most = kind ? static_cast<double>(kind->memory.count) : INFINITY;
  const std::vector<Choice> all = choices(row, stack);
  if (all.empty()) cannot("no whole number of microbatches");
  double best = INFINITY;
  for (const Choice& choice : all)
    if (prediction.memory(layer, choice) <= most) best = std::min(best, prediction.step(layer, choice));
  if (best < INFINITY) return best;
  const auto leanest =
      std::ranges::min_element(all, {}, [&](const Choice& choice) { return prediction.memory(layer, choice); });
  // The run took place, so with all layers recomputed the memory estimate is too high.
  if (leanest->recompute == StageRecompute::blocks) return prediction.step(layer, *leanest);
  cannot(fmt::format("the plan as the source has it does not fit: {:.0f} GB of {:.0f}",
                     prediction.memory(layer, *leanest) / 1e9, most / 1e9));
}

std::vector<Outcome> predict_transformers(const MeasuredSource& source, const AllReduceTimes& all_reduce,
                                          const LayerScale& scale, const std::map<std::string, LayerScale>& sharded,
                                          double spread) {
  std::vector<Outcome> outcomes;
  for (const MeasuredRow& row : source.rows) {
    if (row.calibrates()) continue;
    outcomes.push_back(attempt(row, set_name(source, row), [&]() -> double {
      if (row.framework.starts_with("MegaScale"))
        cannot("MegaScale changes the model: parallel blocks, sliding windows");
      if (row.family == "gpt-layer") return layer_seconds(row, source.name, all_reduce, scale);
      const auto own = sharded.find(generation(row.gpu_kind));
      const LayerScale& of = row.zero >= 3 && own != sharded.end() ? own->second : scale;
      return transformer_seconds(row, source.name, all_reduce, spread_among(of, spread, row.gpus));
    }));
  }
  return outcomes;
}

}  // namespace trainyard::bench
