// NeuSight's training steps: fp32 without TF32, forward and backward pass without optimizer (its Tracing/trace.py,
// commit 6945927). Gradients are not zeroed between steps: each is added to that of the step before, 12 bytes a
// parameter, as many as an SGD update moves; so does Megatron-LM on 4 GPUs. Models are those of Hugging Face's
// transformers, on 4 GPUs Megatron-LM's.
#include <fmt/format.h>

#include <charconv>

#include "one_gpu.hpp"
#include "plans.hpp"
#include "predict.hpp"

namespace trainyard::bench {
namespace {

/// The network with a batch of so many samples. The table of gpt3_xl says 2,048 wide with 16 heads; the ops of its
/// label are 3,072 wide with 24. GPT-2 spells its GELU out in transformers; Megatron-LM's is one
/// kernel, as OPT's ReLU is.
std::string network_of(const MeasuredRow& row, double batch) {
  if (!row.layers || !row.hidden || !row.heads || !row.sequence)
    cannot("a mixture of experts whose sizes the source does not give");
  const bool is_xl = row.model == "gpt3_xl";
  const auto sizes = fmt::format("batch={},seq={},layers={},hidden={},heads={}", batch, *row.sequence, *row.layers,
                                 is_xl ? 3072 : *row.hidden, is_xl ? 24 : *row.heads);
  if (row.model.starts_with("bert")) return "bert_large:" + sizes;
  const bool in_parts = row.model.starts_with("gpt") && row.framework.find("Megatron") == std::string::npos;
  return fmt::format("gpt2:{},positions={},vocabulary={},gelu_in_parts={}", sizes, *row.sequence,
                     row.vocabulary.value_or(50257), in_parts ? 1 : 0);
}

/// Forward and backward pass of so many samples, gradients added.
double one_step(const MeasuredRow& row, double batch, OneGpu& gpu) {
  return gpu.step(network_of(row, batch), row).whole();
}

/// "gpt2_large-train-1024-4-pp4_1": M of ppN_M is the number of microbatches.
double microbatches(const MeasuredRow& row) {
  const auto at = row.where.rfind("-pp");
  const auto bar = at == std::string::npos ? at : row.where.find('_', at);
  int number = 0;
  if (bar != std::string::npos)
    std::from_chars(row.where.data() + bar + 1, row.where.data() + row.where.size(), number);
  return number > 0 ? number : told(row.batch, "batch") / told(row.microbatch, "microbatch");
}

double pipeline(const MeasuredRow& row, OneGpu& gpu) {
  const double m = microbatches(row), batch = told(row.batch, "batch") / m;
  MeasuredRow parted = row;
  parted.microbatch = batch;
  const auto layers = static_cast<std::size_t>(told(row.layers, "layers"));
  const double each = one_step(row, batch, gpu) / *row.layers;
  return step_seconds(bare_costs(parted, layers, layer_cost(each / 3, each / 3, each / 3)),
                      plan_of(parted, layers, PipelineSchedule::one_f_one_b));
}

/// One of the ranks that divide each layer, one after the other its ops and the ranks' sums.
double ranks(const MeasuredRow& row, OneGpu& gpu, const AllReduceTimes& all_reduce) {
  const OneStep& step = gpu.step(network_of(row, told(row.batch, "batch")), row, Optimizer::sgd, row.tensor);
  double time = step.whole();
  for (const RankCollective& each : step.collectives) {
    const auto sum = all_reduce.seconds(row.gpu_kind, row.tensor, static_cast<double>(each.bytes.count));
    if (!sum) cannot("no measured all-reduce of this GPU");
    time += each.kind == CollectiveKind::all_reduce ? *sum : *sum / 2;
  }
  return time;
}

}  // namespace

std::vector<Outcome> predict_neusight(const MeasuredSource& source, const AllReduceTimes& all_reduce, bool roofline) {
  OneGpu gpu{roofline};
  std::vector<Outcome> outcomes;
  for (const MeasuredRow& row : source.rows) {
    if (row.gpus == 1) {
      std::string rests_on;
      outcomes.push_back(attempt(row, "NeuSight, 1 GPU", [&] {
        const OneStep& step = gpu.step(network_of(row, told(row.batch, "batch")), row);
        rests_on = step.rests_on;
        return step.whole();
      }));
      outcomes.back().part = generation(row.gpu_kind);
      outcomes.back().rests_on = rests_on;
    } else if (row.tensor > 1) {
      outcomes.push_back(attempt(row, "NeuSight, tensor parallel", [&] { return ranks(row, gpu, all_reduce); }));
    } else if (row.pipeline > 1) {
      outcomes.push_back(attempt(row, "NeuSight, pipelines", [&] { return pipeline(row, gpu); }));
    } else {
      outcomes.push_back(attempt(row, "NeuSight, replicas", [&] {
        const auto sum = all_reduce.seconds(row.gpu_kind, row.gpus, 4 * told(row.parameters, "number of parameters"));
        if (!sum) cannot("no measured all-reduce of this GPU");
        const double one = one_step(row, told(row.batch, "batch") / static_cast<double>(row.data), gpu);
        return one + *sum;
      }));
    }
  }
  return outcomes;
}

}  // namespace trainyard::bench
