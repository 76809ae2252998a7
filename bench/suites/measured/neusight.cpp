// NeuSight's training steps: fp32 without TF32, forward and backward pass without optimizer (its Tracing/trace.py,
// commit 6945927). Gradients are not zeroed between steps. Each is added to that of the previous step, which moves 12
// bytes per parameter, as many as an SGD update; Megatron-LM on 4 GPUs does so too. Models are those of Hugging Face's
// transformers, and those of Megatron-LM on 4 GPUs.
#include <fmt/format.h>

#include <charconv>

#include "one_gpu.hpp"
#include "plans.hpp"
#include "predict.hpp"

namespace trainyard::bench {
namespace {

/// The row's network with `batch` samples. NeuSight's table gives gpt3_xl width 2,048 and 16 heads, but the ops under
/// that label have width 3,072 and 24 heads. GELU takes several kernels in GPT-2 of transformers, and one in
/// Megatron-LM, as OPT's ReLU does.
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

/// Seconds of the forward and backward pass of `batch` samples, with the addition of gradients.
double one_step(const MeasuredRow& row, double batch, OneGpu& gpu) {
  return gpu.step(network_of(row, batch), row).whole();
}

/// Number of microbatches: M of ppN_M in "gpt2_large-train-1024-4-pp4_1", or else batch over microbatch.
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

/// Seconds of a step on one of the tensor ranks: its ops and the collectives, without overlap.
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
