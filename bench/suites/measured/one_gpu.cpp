#include "one_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "predict.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/model/precision.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::bench {
namespace {

OneStep sum(const std::string& network, const MeasuredRow& row, Optimizer optimizer, std::size_t ranks, bool roofline) {
  const DeviceKind* kind = find_device_kind(row.gpu_kind);
  if (kind == nullptr) cannot(fmt::format("no built-in kind of device is {}", row.gpu_kind));
  const DataType type = !row.is_half()                                    ? DataType::float32
                        : row.precision.find("bf16") != std::string::npos ? DataType::bfloat16
                                                                          : DataType::float16;
  CostModel costs;
  costs.kernels.reset();
  if (!roofline) costs.kernels = KernelOptions{.tf32 = row.precision == "tf32"};
  const Model model = with_precision(make_network(network), type);
  TensorParallelGraph parallel =
      first_tensor_rank(training_graph(model, {.optimizer = optimizer, .granularity = Granularity::fine}), {ranks});
  const Problem problem{std::move(parallel.graph),
                        make_cluster({.name = "one", .devices = {make_device(*kind, "gpu0")}}), costs};
  OneStep step{.collectives = std::move(parallel.collectives)};
  std::map<std::string_view, double> sources;
  for (const OpId op : problem.ops()) {
    const double time = seconds(problem.duration(op, DeviceId{0}));
    const bool update = problem.graph().phase(op) == Phase::update;
    (update ? step.update : step.passes) += time;
    if (!update) sources[problem.cost_source(op, DeviceId{0}).name] += time;
  }
  const auto most = std::ranges::max_element(sources, {}, [](const auto& each) { return each.second; });
  if (most != sources.end()) step.rests_on = most->first;
  return step;
}

/// The built-in network of a published model, and its usual optimizer.
struct Known {
  const char *model, *network;
  Optimizer optimizer;
};
constexpr Known kKnown[] = {{"ResNet-50 v1.5", "resnet50", Optimizer::momentum},
                            {"BERT-base pretraining", "bert_base", Optimizer::adam},
                            {"BERT-large pretraining", "bert_large", Optimizer::adam},
                            {"BERT-large SQuAD fine-tuning", "bert_large", Optimizer::adam}};

}  // namespace

const OneStep& OneGpu::step(const std::string& network, const MeasuredRow& row, Optimizer optimizer,
                            std::size_t ranks) {
  const std::tuple key{network, row.gpu_kind, row.precision, optimizer, ranks};
  auto at = known_.find(key);
  if (at == known_.end()) at = known_.emplace(key, sum(network, row, optimizer, ranks, roofline_)).first;
  return at->second;
}

std::vector<Outcome> predict_one_gpu(const MeasuredSource& source, const std::string& set, bool roofline) {
  OneGpu gpu{roofline};
  std::vector<Outcome> outcomes;
  for (const MeasuredRow& row : source.rows) {
    if (row.gpus > 1) continue;
    std::string rests_on;
    outcomes.push_back(attempt(row, set, [&] {
      const auto known = std::ranges::find_if(kKnown, [&](const Known& each) { return row.model == each.model; });
      if (known == std::end(kKnown)) cannot(fmt::format("no built-in network is {}", row.model));
      std::string network = fmt::format("{}:batch={}", known->network, told(row.microbatch, "microbatch"));
      if (row.sequence) network += fmt::format(",seq={}", *row.sequence);
      const OneStep& step = gpu.step(network, row, known->optimizer);
      rests_on = step.rests_on;
      return step.passes * row.accumulation().value_or(1) + step.update;
    }));
    outcomes.back().part = row.precision;
    outcomes.back().rests_on = rests_on;
  }
  return outcomes;
}

}  // namespace trainyard::bench
