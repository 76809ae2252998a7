#include "profiler/run/cuda/kernel_bounds.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "trainyard/core/quantity.hpp"
#include "trainyard/core/statistics.hpp"

namespace trainyard::cuda {
namespace {

/// Whether cuBLAS or cuDNN computes the op, forward or backward.
bool of_library(std::string_view type) {
  static const std::set<std::string_view> others{
      "AveragePool", "AveragePoolGrad", "BatchNormGrad", "BatchNormalization",
      "LogSoftmax",  "LogSoftmaxGrad",  "Softmax",       "SoftmaxGrad"};
  return others.contains(type) ||
         std::ranges::any_of(std::initializer_list<std::string_view>{"Conv", "Gemm", "Linear", "MatMul"},
                             [&](std::string_view product) { return type.starts_with(product); });
}

}  // namespace

std::vector<KernelBound> kernel_bounds(Backend& backend, const Problem& problem, const Workload& workload,
                                       Nanoseconds launch) {
  constexpr int kSamples = 5;
  const Graph& graph = problem.graph();
  const Device& device = problem.cluster().device(DeviceId{0});
  std::map<OpId, std::vector<Nanoseconds>> times;
  for (const AloneSample& sample : backend.time_alone(problem, workload, DeviceId{0}, MeasureMode::hot, kSamples))
    times[sample.op].push_back(sample.time);
  std::vector<KernelBound> bounds;
  for (auto& [op, samples] : times) {
    const double seconds =
        std::max(device.memory_bandwidth.value > 0
                     ? static_cast<double>(graph.bytes_accessed(op).count) / device.memory_bandwidth.value
                     : 0,
                 device.peak.value > 0 ? graph.flops(op).value / device.peak.value : 0);
    bounds.push_back({.op = op,
                      .time = upper_quantile_of(std::move(samples)),
                      .bound = nanoseconds_from_seconds(seconds) + launch,
                      .ours = !of_library(graph.type(op))});
  }
  return bounds;
}

}  // namespace trainyard::cuda
