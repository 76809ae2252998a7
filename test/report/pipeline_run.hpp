#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/report/page.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {

struct PipelineSize {
  std::size_t devices = 8, microbatches = 12, ops = 104;  // ops per device, microbatch and direction
};

/// Pipeline of stages, one per device: forward and backward passes of several microbatches, then the updates. Every
/// backward op reads the output of its forward op, so memory rises and falls.
inline Problem pipeline_problem(PipelineSize size = {}) {
  Random random{11};
  GraphBuilder builder{"pipeline"};
  const char* const kTypes[] = {"MatMul", "Add",    "LayerNormalization", "Softmax", "Gelu", "Transpose",
                                "Gemm",   "Dropout"};
  const auto name = [](const char* what, std::size_t device, std::size_t batch, std::size_t op) {
    return std::string{what} + "_" + std::to_string(device) + "_" + std::to_string(op) + ".mb" + std::to_string(batch);
  };
  const auto time = [&](std::int64_t factor) {
    return std::vector<GivenTime>{{"gpu", Nanoseconds{factor * random.between(8'000, 50'000)}}};
  };
  const auto layer = [&](std::size_t device, std::size_t op) {
    return "block_" + std::to_string(device * 4 + op * 4 / size.ops);
  };
  for (std::size_t batch = 0; batch < size.microbatches; ++batch) {
    std::string carried;
    for (std::size_t device = 0; device < size.devices; ++device)
      for (std::size_t op = 0; op < size.ops; ++op) {
        OpSpec spec{.name = name("forward", device, batch, op),
                    .type = kTypes[op % 8],
                    .layer = layer(device, op),
                    .parameter_bytes = Bytes{batch == 0 ? 24'000'000 : 0},
                    .times = time(1),
                    .outputs = {{name("y", device, batch, op), Bytes{12'000'000}}}};
        if (!carried.empty()) spec.inputs = {carried};
        carried = spec.outputs.front().name;
        builder.add(std::move(spec));
      }
    for (std::size_t device = size.devices; device-- > 0;)
      for (std::size_t op = size.ops; op-- > 0;) {
        OpSpec spec{.name = name("backward", device, batch, op),
                    .type = std::string{kTypes[op % 8]} + "Grad",
                    .phase = Phase::backward,
                    .layer = layer(device, op),
                    .times = time(2),
                    .inputs = {carried},
                    .outputs = {{name("dy", device, batch, op), Bytes{12'000'000}}}};
        const std::string activation = name("y", device, batch, op);
        if (activation != carried) spec.inputs.push_back(activation);
        carried = spec.outputs.front().name;
        builder.add(std::move(spec));
      }
  }
  for (std::size_t device = 0; device < size.devices; ++device)
    builder.add({.name = "</script><img src=x onerror=alert(" + std::to_string(device) + ")>",
                 .type = "Adam",
                 .phase = Phase::update,
                 .layer = "optimizer",
                 .times = {{"gpu", Nanoseconds{2'000'000}}},
                 .inputs = {name("dy", device, size.microbatches - 1, 0)}});
  ClusterSpec spec{.name = "8 <GPUs> & \"links\""};
  for (std::size_t i = 0; i < size.devices; ++i) {
    spec.devices.push_back({.name = "gpu" + std::to_string(i), .device_class = "gpu", .memory = Bytes{32'000'000'000}});
    for (std::size_t j = 0; j < i; ++j)
      spec.links.push_back({.name = "nvlink-" + std::to_string(j) + "-" + std::to_string(i),
                            .from = "gpu" + std::to_string(j),
                            .to = "gpu" + std::to_string(i),
                            .bandwidth = BytesPerSecond{25e9},
                            .latency = Nanoseconds{5'000}});
  }
  return Problem{std::move(builder).build(), make_cluster(spec)};
}

/// Run of the pipeline on `devices_used` devices. Neighbouring stages share a device if there are fewer devices than
/// stages.
inline Run pipeline_run(const Problem& problem, std::string placer, std::size_t devices_used, PipelineSize size = {}) {
  Schedule schedule{.placement = Placement(problem.op_count()), .policy = Policy::priority};
  schedule.priority.assign(problem.op_count(), 0);
  const std::size_t half = size.devices * size.ops;
  for (const OpId op : problem.ops()) {
    const std::size_t in_batch = op.index() % (2 * half);
    std::size_t stage = in_batch < half ? in_batch / size.ops : (2 * half - 1 - in_batch) / size.ops;
    if (op.index() >= 2 * half * size.microbatches) stage = op.index() - 2 * half * size.microbatches;
    schedule.priority[op] = -static_cast<double>(op.index() / (2 * half));  // earlier microbatches first
    schedule.placement[op] = DeviceId{stage * devices_used / size.devices};
  }
  schedule.placer = std::move(placer);
  Timeline timeline = simulate(problem, schedule);
  return run_of(problem, std::move(schedule), std::move(timeline), {});
}

}  // namespace trainyard::test
