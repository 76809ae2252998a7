// Pipeline schedules of the zero-bubble paper, as ratios to the calibrating 1F1B row of each model.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plans.hpp"
#include "predict.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::bench {
namespace {

/// Bandwidth between neighbours on different nodes in bytes/s: one 200 Gbit/s card per GPU, an assumption, since the
/// source does not give it.
constexpr double kBetweenNodes = 25e9;

/// "1F1B", "interleaved 1F1B, one layer a chunk", "zero bubble, 1F1B memory", "zero bubble, 2x memory".
PipelineSchedule schedule_of(const MeasuredRow& row) {
  if (row.schedule == "1F1B") return PipelineSchedule::one_f_one_b;
  if (row.schedule.starts_with("interleaved")) return PipelineSchedule::interleaved;
  if (row.schedule == "zero bubble, 1F1B memory") return PipelineSchedule::zb_h1;
  if (row.schedule == "zero bubble, 2x memory") return PipelineSchedule::zb_h2;
  cannot(fmt::format("no schedule is '{}'", row.schedule));
}

/// Cost of a layer: op costs of the first block of the built-in GPT-2.
LayerCost layer_of(const MeasuredRow& row) {
  const DeviceKind* kind = find_device_kind(row.gpu_kind);
  if (kind == nullptr) cannot(fmt::format("no built-in kind of device is {}", row.gpu_kind));
  const auto network =
      fmt::format("gpt2:layers=1,batch={},seq={},hidden={},heads={},positions={}", told(row.microbatch, "microbatch"),
                  told(row.sequence, "sequence"), told(row.hidden, "width"), told(row.heads, "heads"), *row.sequence);
  const Model model = with_precision(make_network(network), row.is_half() ? DataType::bfloat16 : DataType::float32);
  const Problem problem{training_graph(model, {.granularity = Granularity::fine}),
                        make_cluster({.name = "one", .devices = {make_device(*kind, "gpu0")}})};
  LayerCost cost{};
  for (const OpId op : problem.ops()) {
    if (problem.graph().layer(op) != "h.0") continue;
    const Phase phase = problem.graph().phase(op);
    const std::string_view type = problem.graph().type(op);
    const Nanoseconds time = problem.duration(op, DeviceId{0});
    if (phase == Phase::forward)
      cost.forward += time;
    else if (phase == Phase::backward)
      (type.ends_with("GradW") || type.ends_with("GradB") ? cost.weight_gradient : cost.input_gradient) += time;
  }
  cost.input = cost.output = Bytes{static_cast<std::int64_t>(2 * *row.microbatch * *row.sequence * *row.hidden)};
  return cost;
}

/// The longest span of a device, from the start of its first task to the end of its last, which takes `last_task` and
/// computes gradients of weights.
Nanoseconds longest_span(const PlanStep& run, Nanoseconds last_task) {
  Nanoseconds longest{0};
  for (const auto& starts : run.starts) longest = std::max(longest, starts.back() + last_task - starts.front());
  return longest;
}

/// Seconds of a step. Stages are equal, since the first and the last have one layer less, in exchange for the embedding
/// and the logits. Steps of zero-bubble schedules follow each other without a barrier (section 4 of the paper), so the
/// step time is the longest span of a device.
double step(const MeasuredRow& row, const LayerCost& layer) {
  const auto layers = static_cast<std::size_t>(told(row.layers, "layers")) + 2;
  const PipelineSchedule schedule = schedule_of(row);
  PlanCosts costs = bare_costs(row, layers, layer);
  costs.transfer = [&](const ParallelPlan&, std::size_t from, std::size_t to, Bytes bytes) {
    const bool near = from / row.gpus_per_node == to / row.gpus_per_node;
    return nanoseconds_from_seconds(static_cast<double>(bytes.count) / (near ? kNvLink : kBetweenNodes));
  };
  const ParallelPlan plan = plan_of(row, layers, schedule, layers / row.pipeline);
  if (!splits_backward(schedule)) return step_seconds(costs, plan);
  const auto own = static_cast<std::int64_t>(layers / row.pipeline);
  return seconds(longest_span(run_row(costs, plan), own * layer.weight_gradient));
}

}  // namespace

std::vector<Outcome> predict_pipelines(const MeasuredSource& source) {
  std::map<std::string, const MeasuredRow*> anchors;
  for (const MeasuredRow& row : source.rows)
    if (row.calibrates() && row.seconds && row.microbatch && row.layers) anchors[row.model] = &row;
  std::vector<Outcome> outcomes;
  for (const MeasuredRow& row : source.rows) {
    if (row.calibrates()) continue;
    outcomes.push_back(attempt(row, "zero bubble, ratios to 1F1B", [&] {
      const auto at = anchors.find(row.model);
      if (at == anchors.end()) cannot("no calibrating row of the model");
      const LayerCost layer = layer_of(row);
      return *at->second->seconds * step(row, layer) / step(*at->second, layer);
    }));
    outcomes.back().part = row.schedule;
  }
  return outcomes;
}

}  // namespace trainyard::bench
