// Fully sharded training of GPT: MosaicML's llm-foundry.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "plans.hpp"
#include "predict.hpp"

namespace trainyard::bench {
namespace {

/// Rates from data sheets and from publications on kernels.
struct Gpu {
  double peak, bandwidth;  // bf16, FLOP/s; bytes/s
  double attention;        // share of the peak that fused attention reaches, for the FLOPs of a causal mask
  double network;          // bytes/s of a node of 8 GPUs
};

/// Attention on H100: FlashAttention-2 reaches 0.35 (J. Shah et al.: FlashAttention-3, 2024). Network: 8 x 200 and 8 x
/// 400 Gbit/s per node, an assumption, since the source does not give it.
std::optional<Gpu> find_gpu(const std::string& kind) {
  if (kind == "A100-SXM4-40GB") return Gpu{312e12, 1555e9, kFusedAttention, 200e9};
  if (kind == "A100-SXM4-80GB") return Gpu{312e12, 2039e9, kFusedAttention, 200e9};
  if (kind == "H100-SXM5-80GB") return Gpu{989.4e12, 3350e9, 0.35, 400e9};
  return std::nullopt;
}

constexpr double kLogitBytes = 34;   // per logit: in bf16, cast to fp32, its softmax and their gradients
constexpr double kUpdateBytes = 28;  // per parameter, Adam

/// Constants that are fitted to the calibrating rows.
struct Fit {
  double share = 0.8;  // share of the peak that linear layers reach
  double bytes = 50;   // other traffic of a layer's forward pass, in 2-byte units per element of b s h; backward: x 1.5
};

struct ShardedStep {
  const MeasuredRow& row;
  Gpu gpu;
  double gather = 0;  // seconds to gather all weights, or to scatter all gradients

  double tokens() const { return *row.microbatch * *row.sequence; }
  double bytes_time(double bytes) const { return bytes / (gpu.bandwidth * kStreamShare); }

  /// Seconds of a layer in one pass. The arguments are its work in linear layers, attention and the rest, relative to
  /// that of the forward pass.
  double pass(const Fit& fit, double products, double attention, double rest) const {
    const double h = *row.hidden, linear = 2 * tokens() * 12 * h * h;
    const double scores = 2 * tokens() * *row.sequence * h;
    return products * linear / (gpu.peak * fit.share) + attention * scores / (gpu.peak * gpu.attention) +
           rest * bytes_time(2 * tokens() * h * fit.bytes);
  }
  /// Seconds of the head and its gradients.
  double head(const Fit& fit) const {
    const double logits = tokens() * *row.vocabulary;
    return 6 * logits * *row.hidden / (gpu.peak * fit.share) + bytes_time(kLogitBytes * logits);
  }

  double step(const Fit& fit) const {
    const bool again = row.recompute == "full";
    const auto layers = static_cast<std::size_t>(*row.layers);
    const double part = gather / *row.layers, tail = head(fit);
    PlanCosts costs = bare_costs(row, layers, {});
    costs.layer = [&](std::size_t layer, std::size_t, LayerDegree) {
      const double own = layer + 1 == layers ? tail : 0;
      const double forward = std::max(pass(fit, 1, 1, 1), part);
      const double backward = std::max(pass(fit, 2, 2.5, 1.5), (again ? 1 : 2) * part);
      return layer_cost(forward, backward + own, 0);
    };
    const double update = bytes_time(kUpdateBytes * *row.parameters / static_cast<double>(row.gpus));
    costs.update = [&](Bytes, std::size_t, std::size_t) { return nanoseconds_from_seconds(update); };
    ParallelPlan plan = plan_of(row, layers, PipelineSchedule::one_f_one_b);
    if (again) plan.recompute = {StageRecompute::blocks};
    return step_seconds(costs, plan);
  }
};

ShardedStep model_of(const MeasuredRow& row, const AllReduceTimes& all_reduce) {
  const auto gpu = find_gpu(row.gpu_kind);
  if (!gpu) cannot(fmt::format("no data sheet of {}", row.gpu_kind));
  for (const auto& [number, what] : {std::pair{row.layers, "layers"},
                                     {row.hidden, "width"},
                                     {row.sequence, "sequence"},
                                     {row.vocabulary, "vocabulary"},
                                     {row.parameters, "number of parameters"},
                                     {row.batch, "batch"},
                                     {row.microbatch, "microbatch"}})
    told(number, what);
  // Half of an all-reduce, since a gather moves the bytes through each GPU once.
  const double bytes = 2 * *row.parameters;
  const auto node = all_reduce.seconds(row.gpu_kind, std::min(row.gpus, row.gpus_per_node), bytes);
  if (!node) cannot("no measured all-reduce of this GPU");
  const auto nodes = static_cast<double>(row.nodes());
  const double between = (nodes - 1) / nodes * bytes / (kNetworkShare * gpu->network);
  return {row, *gpu, std::max(*node / 2, between)};
}

/// The constants with the least sum of squared relative errors on a grid.
Fit fit_to(const std::vector<ShardedStep>& rows) {
  Fit best;
  double least = INFINITY;
  for (int share = 100; share <= 200; ++share)
    for (int bytes = 0; bytes <= 120; ++bytes) {
      const Fit fit{share / 200.0, static_cast<double>(bytes)};
      double squares = 0;
      for (const ShardedStep& each : rows) squares += std::pow(each.step(fit) / *each.row.seconds - 1, 2);
      if (squares < least) least = squares, best = fit;
    }
  return best;
}

}  // namespace

std::vector<Outcome> predict_sharded(const MeasuredSource& source, const AllReduceTimes& all_reduce) {
  std::map<std::string, std::vector<ShardedStep>> calibrating;
  calibrate_with(source, [&](const MeasuredRow& row) {
    const ShardedStep model = model_of(row, all_reduce);
    model.step({});
    calibrating[generation(row.gpu_kind)].push_back(model);
  });
  std::map<std::string, Fit> fits;
  for (const auto& [kind, rows] : calibrating) fits[kind] = fit_to(rows);
  std::vector<Outcome> outcomes;
  for (const MeasuredRow& row : source.rows) {
    if (row.calibrates()) continue;
    const char* set = row.gpus <= 8 ? "llm-foundry, 8 GPUs" : "llm-foundry, 16 to 512 GPUs";
    outcomes.push_back(attempt(row, set, [&] {
      const auto fit = fits.find(generation(row.gpu_kind));
      if (fit == fits.end()) cannot("no calibrating row of this GPU");
      return model_of(row, all_reduce).step(fit->second);
    }));
    outcomes.back().part = generation(row.gpu_kind);
  }
  return outcomes;
}

}  // namespace trainyard::bench
