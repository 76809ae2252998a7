// Replicas predicted from the row of one GPU: DLPerf and NVIDIA DeepLearningExamples.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "plans.hpp"
#include "predict.hpp"
#include "trainyard/core/portable_math.hpp"

namespace trainyard::bench {
namespace {

constexpr double kBucket = 25.0 * 1024 * 1024;  // bytes, PyTorch's DistributedDataParallel

/// Number of parameters from the row or, for models whose rows lack it, from their READMEs.
std::optional<double> parameters_of(const MeasuredRow& row) {
  if (row.parameters) return row.parameters;
  if (row.model == "Transformer-XL base") return 192e6;
  if (row.model == "Transformer-XL large") return 257e6;
  return std::nullopt;
}

auto key_of(const MeasuredRow& row) {
  return std::tuple{row.model, row.framework, row.gpu_kind, row.precision, row.microbatch, row.sequence};
}

/// Seconds of the all-reduce of gradients among the replicas of a stage, which fill one node after another.
double sum_of_gradients(const MeasuredRow& row, const AllReduceTimes& all_reduce) {
  const bool amp = row.precision.find("AMP") != std::string::npos || row.precision == "amp";
  const double bytes = told(parameters_of(row), "number of parameters") * (row.is_half() && !amp ? 2 : 4) /
                       static_cast<double>(row.pipeline);
  const double buckets = std::max(1.0, std::round(bytes / kBucket));
  const auto node = all_reduce.seconds(row.gpu_kind, std::min(row.data, row.gpus_per_node), bytes / buckets);
  if (!node) cannot("no measured all-reduce of this GPU");
  const auto nodes = std::ceil(static_cast<double>(row.data) / static_cast<double>(row.gpus_per_node));
  return buckets * *node + 2 * (nodes - 1) / nodes * bytes / (kNetworkShare * network_of(row));
}

/// Cost of `units` parts of a microbatch that takes `one` seconds. With recomputation the forward pass is a fourth of
/// it, else a third.
LayerCost part_of(double one, double units, bool recomputes) {
  const double unit = one * units;
  return recomputes ? layer_cost(unit / 4, 3 * unit / 8, 3 * unit / 8) : layer_cost(unit / 3, unit / 3, unit / 3);
}

/// Seconds of a step by 1F1B. A microbatch is a chain of layers and the head, whose work is V / (12 h + 2 s) of a
/// layer's, or 0.75 times that if the layers are recomputed.
double pipeline(const MeasuredRow& row, double one) {
  const bool recomputes = row.recompute.starts_with("full");
  const auto layers = static_cast<std::size_t>(told(row.layers, "layers"));
  const double width = told(row.hidden, "width"), words = told(row.vocabulary, "vocabulary");
  const double head = words / (12 * width + 2 * told(row.sequence, "sequence")) * (recomputes ? 0.75 : 1);
  const double unit = 1 / (*row.layers + head);
  PlanCosts costs = bare_costs(row, layers, {});
  costs.layer = [=](std::size_t layer, std::size_t, LayerDegree) {
    return part_of(one, unit * (layer + 1 == layers ? 1 + head : 1), recomputes);
  };
  return step_seconds(costs, plan_of(row, layers, PipelineSchedule::one_f_one_b));
}

std::string set_of(const MeasuredSource& source, const MeasuredRow& row) {
  const bool is_dlperf = source.name == "dlperf";
  if (is_dlperf) return row.gpus <= 8 ? "DLPerf, 8 GPUs" : "DLPerf, 16 and 32 GPUs";
  return row.nodes() == 1 ? "DeepLearningExamples, a node" : "DeepLearningExamples, several nodes";
}

}  // namespace

double replica_spread(const MeasuredSource& source) {
  const auto same = [](const MeasuredRow& row) {
    return std::tuple{row.model, row.framework, row.precision, row.microbatch, row.sequence};
  };
  double squares = 0, pairs = 0;
  for (const MeasuredRow& a : source.rows)
    for (const MeasuredRow& b : source.rows)
      if (a.gpu_kind == "V100-SXM2-16GB" && b.gpu_kind == "V100-SXM2-32GB" && same(a) == same(b) && a.calibrates() &&
          b.calibrates() && a.gpus == 1 && b.gpus == 1 && a.microbatch && a.seconds && b.seconds) {
        const double apart = std::log(*a.seconds / *b.seconds);
        squares += apart * apart / 2;
        ++pairs;
      }
  return pairs > 0 ? std::sqrt(squares / pairs) : 0;
}

std::vector<Outcome> predict_replicas(const MeasuredSource& source, const AllReduceTimes& all_reduce, double spread) {
  std::map<decltype(key_of(source.rows.front())), const MeasuredRow*> one;
  for (const MeasuredRow& row : source.rows)
    if (row.gpus == 1 && row.calibrates() && row.seconds && row.microbatch) one.try_emplace(key_of(row), &row);
  const auto scales = step_scales(source, all_reduce, 1, [](const MeasuredRow& row) { return row.framework; });
  const auto ideal_step = [&](const MeasuredRow& row) {
    const auto at = one.find(key_of(row));
    if (at == one.end()) cannot("no calibrating row of one GPU with this model, framework and batch");
    const double first = *at->second->seconds / at->second->accumulation().value_or(1);
    return row.pipeline > 1 ? pipeline(row, first) : first * row.accumulation().value_or(1);
  };
  const auto step = [&](const MeasuredRow& row, double ideal) {
    const auto n = static_cast<double>(row.gpus);
    return ideal * (1 + spread * normal_quantile((n - 0.375) / (n + 0.25))) + sum_of_gradients(row, all_reduce);
  };
  // Extra time per further GPU of a node, by model and framework: mean over the calibrating rows of several GPUs.
  std::map<std::pair<std::string, std::string>, std::pair<double, double>> added;
  calibrate_with(source, [&](const MeasuredRow& row) {
    if (row.gpus == 1 || row.nodes() > 1 || row.tensor * row.pipeline > 1 || !row.seconds) return;
    const double more = (*row.seconds - step(row, ideal_step(row))) / static_cast<double>(row.gpus - 1);
    auto& [sum, rows] = added[{row.model, row.framework}];
    sum += more, ++rows;
  });
  std::vector<Outcome> outcomes;
  for (const MeasuredRow& row : source.rows) {
    if (row.gpus == 1 || row.calibrates()) continue;
    double ideal = 0;
    outcomes.push_back(attempt(row, set_of(source, row), [&] {
      if (row.tensor > 1) {
        const auto scale = scales.find(row.framework);
        if (scale == scales.end()) cannot("no calibrating row of one GPU with this framework");
        return transformer_seconds(row, source.name, all_reduce, spread_among(scale->second, spread, row.gpus));
      }
      ideal = ideal_step(row);
      const auto more = added.find({row.model, row.framework});
      if (more == added.end()) return step(row, ideal);
      const auto further = static_cast<double>(std::min(row.gpus, row.gpus_per_node) - 1);
      return step(row, ideal) + further * more->second.first / more->second.second;
    }));
    if (source.name == "dlperf") outcomes.back().part = row.model.substr(0, row.model.find_first_of(" -"));
    if (outcomes.back().predicted && ideal > 0) outcomes.back().ideal = ideal;
  }
  return outcomes;
}

}  // namespace trainyard::bench
