// NeuSight's training steps: fp32 without TF32, forward and backward pass without optimizer.
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <tuple>
#include <utility>

#include "plans.hpp"
#include "predict.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::bench {
namespace {

/// The network with a batch of so many samples. The table of gpt3_xl says 2,048 wide with 16 heads; the ops of its
/// label are 3,072 wide with 24. OPT has ReLU where GPT-2 has GELU.
std::string network_of(const MeasuredRow& row, double batch) {
  if (!row.layers || !row.hidden || !row.heads || !row.sequence)
    cannot("a mixture of experts whose sizes the source does not give");
  const bool is_xl = row.model == "gpt3_xl";
  const auto sizes = fmt::format("batch={},seq={},layers={},hidden={},heads={}", batch, *row.sequence, *row.layers,
                                 is_xl ? 3072 : *row.hidden, is_xl ? 24 : *row.heads);
  if (row.model.starts_with("bert")) return "bert_large:" + sizes;
  return fmt::format("gpt2:{},positions={},vocabulary={}", sizes, *row.sequence, row.vocabulary.value_or(50257));
}

/// Matrix products in plain fp32: the peak without tensor cores, and the bandwidth, of the data sheets.
Device device_of(const MeasuredRow& row) {
  constexpr std::tuple<const char*, double, double> kSheets[] = {{"A100-SXM4-40GB", 19.5e12, 1555e9},
                                                                 {"A100-PCIe-80GB", 19.5e12, 1935e9},
                                                                 {"V100-PCIe-32GB", 14e12, 900e9},
                                                                 {"H100-SXM5-80GB", 66.9e12, 3350e9}};
  for (const auto& [kind, peak, bandwidth] : kSheets)
    if (row.gpu_kind == kind)
      return {.name = "gpu0",
              .kind = kind,
              .device_class = "gpu",
              .peak = FlopsPerSecond{peak},
              .memory_bandwidth = BytesPerSecond{bandwidth},
              .launch_overhead = Nanoseconds{4'000}};
  cannot(fmt::format("no data sheet of {}", row.gpu_kind));
}

/// Forward and backward ops, one after another.
class OneGpu {
 public:
  double seconds(const MeasuredRow& row, double batch) {
    const std::string network = network_of(row, batch);
    const auto [at, is_new] = known_.try_emplace({network, row.gpu_kind});
    if (is_new) at->second = sum(network, device_of(row));
    return at->second;
  }

 private:
  static double sum(const std::string& network, Device device) {
    const Problem problem{training_graph(make_network(network), {.granularity = Granularity::fine}),
                          make_cluster({.name = "one", .devices = {std::move(device)}})};
    Nanoseconds total{0};
    for (const OpId op : problem.ops())
      if (problem.graph().phase(op) != Phase::update) total += problem.duration(op, DeviceId{0});
    return trainyard::seconds(total);
  }

  std::map<std::pair<std::string, std::string>, double> known_;
};

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
  const double each = gpu.seconds(row, batch) / *row.layers;
  return step_seconds(bare_costs(parted, layers, layer_cost(each / 3, each / 3, each / 3)),
                      plan_of(parted, layers, PipelineSchedule::one_f_one_b));
}

}  // namespace

std::vector<Outcome> predict_neusight(const MeasuredSource& source, const AllReduceTimes& all_reduce) {
  OneGpu gpu;
  std::vector<Outcome> outcomes;
  for (const MeasuredRow& row : source.rows) {
    if (row.gpus == 1) {
      outcomes.push_back(attempt(row, "NeuSight, 1 GPU", [&] { return gpu.seconds(row, told(row.batch, "batch")); }));
      outcomes.back().part = generation(row.gpu_kind);
    } else if (row.tensor > 1) {
      outcomes.push_back(attempt(row, "NeuSight, tensor parallel", [&]() -> double {
        cannot(fmt::format("tensor degree {}: no op of the graph is divided among ranks", row.tensor));
      }));
    } else if (row.pipeline > 1) {
      outcomes.push_back(attempt(row, "NeuSight, pipelines", [&] { return pipeline(row, gpu); }));
    } else {
      outcomes.push_back(attempt(row, "NeuSight, replicas", [&] {
        const auto sum = all_reduce.seconds(row.gpu_kind, row.gpus, 4 * told(row.parameters, "number of parameters"));
        if (!sum) cannot("no measured all-reduce of this GPU");
        const double one = gpu.seconds(row, told(row.batch, "batch") / static_cast<double>(row.data));
        return one + *sum;
      }));
    }
  }
  return outcomes;
}

}  // namespace trainyard::bench
