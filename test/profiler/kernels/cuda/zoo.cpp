#include "trainyard/zoo/zoo.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/kernels/cuda/gpu_kernels.hpp"
#include "profiler/kernels/cuda/gpu_program.hpp"
#include "profiler/kernels/cuda/host_kernels.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/cuda/plan_hazards.hpp"
#include "profiler/run/random_groups.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/model/op_kind.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// The network with every parameter at or near its minimum.
std::string smallest(const Network& network) {
  static const std::map<std::string, std::int64_t> small{
      {"batch", 1},   {"classes", 4},  {"vocabulary", 20}, {"hidden", 16},  {"inner", 32},       {"heads", 2},
      {"seq", 4},     {"steps", 3},    {"cells", 1},       {"filters", 4},  {"nodes", 2},        {"sampled", 10},
      {"layers", 2},  {"patch", 16},   {"positions", 8},   {"kv_heads", 1}, {"head_width", 4},   {"targets", 3},
      {"base", 4},    {"widening", 2}, {"experts", 4},     {"chosen", 2},   {"expert_inner", 8}, {"query_rank", 8},
      {"kv_rank", 8}, {"rotary", 4},   {"rows", 20}};
  std::string spec = network.name;
  for (const NetworkParameter& parameter : network.parameters) {
    std::int64_t value = parameter.value;
    if (const auto known = small.find(parameter.name); known != small.end())
      value = std::clamp(known->second, parameter.least, parameter.most);
    if (parameter.name == "image") value = std::max<std::int64_t>(parameter.least, 32);
    spec += (spec.size() == network.name.size() ? ":" : ",") + parameter.name + "=" + std::to_string(value);
  }
  return spec;
}

/// Upper limit on a step's FLOPs, as the fake's kernels are slow.
double most_flops() { return is_sanitized() ? 4e7 : 4e8; }

/// GPUs on which the smallest ops take no time.
ClusterSpec gpus_without_overhead(std::size_t count) {
  ClusterSpec spec{.name = "fast"};
  for (std::size_t i = 0; i < count; ++i)
    spec.devices.push_back({.name = "gpu" + std::to_string(i),
                            .device_class = "gpu",
                            .peak = FlopsPerSecond{50e12},
                            .memory_bandwidth = BytesPerSecond{3e12}});
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = i + 1; k < count; ++k)
      spec.links.push_back({.name = std::to_string(i) + "-" + std::to_string(k),
                            .from = spec.devices[i].name,
                            .to = spec.devices[k].name,
                            .bandwidth = BytesPerSecond{100e9},
                            .latency = Nanoseconds{1'000}});
  return spec;
}

}  // namespace

TEST_CASE("every operator of the built-in networks has kernels for GPUs") {
  for (const Network& network : networks()) {
    CAPTURE(network.name);
    const Model model = make_network(network.name);
    for (const Node& node : model.nodes) {
      if (node.type == "Constant" || is_view(model, node)) continue;
      CHECK_MESSAGE(cuda::find_gpu_op(node.type) != nullptr, node.type);
    }
  }
}

TEST_CASE("steps of built-in networks have no hazard: nothing is written over that is still to be read, nor at once") {
  std::size_t planned = 0;
  const auto check = [&](const std::string& spec, std::size_t devices, std::uint64_t seeds) {
    CAPTURE(spec);
    const TrainingStep step = training_step(make_network(spec));
    constexpr std::size_t kMostOps = 1'200;  // the check is quadratic in the ops
    if (step.graph.op_count() > kMostOps) return;
    const Problem problem{step.graph, make_cluster(gpus_without_overhead(devices))};
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      CAPTURE(seed);
      const Schedule schedule = random_groups(problem, seed);
      CHECK(hazards(cuda::make_plan(problem, schedule, simulate(problem, schedule))) == 0);
    }
    ++planned;
  };
  for (const Network& network : networks()) check(smallest(network), 3, 1);
  CHECK(planned > 40);
  // Small networks, whose ops may take no time.
  check("lenet:batch=2", 2, 12);
  check("transformer:batch=1,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4", 4, 12);
  check("rnnlm:batch=2,steps=3,layers=2,hidden=8,vocabulary=20", 4, 12);
}

TEST_CASE("no op writes beyond its tensors, and kernels of ours touch at most three times the bytes of their op") {
  // Runs each op of every network with each tensor in its own memory and a guard after it. Compares the bytes that the
  // op's kernels read and write, counting repeated accesses, with the graph's bytes. cuBLAS and cuDNN are not counted.
  constexpr std::size_t kGuard = 64;  // in floats
  constexpr float kUntouched = -12'345.5F;
  std::map<std::string, std::pair<double, std::string>> most;  // by op type: largest ratio, and where
  for (const Network& network : networks()) {
    const std::string spec = smallest(network);
    CAPTURE(spec);
    const TrainingStep step = training_step(make_network(spec));
    const Graph& graph = step.graph;
    double flops = 0;
    for (const OpId op : graph.ops()) flops += graph.flops(op).value;
    if (flops > most_flops()) continue;
    const Problem problem{graph, make_cluster(preset_cluster("1xV100"))};
    const Schedule serial = serial_schedule(problem, DeviceId{0});
    FakeCuda fake{{.devices = 1, .other_dnn = false}};
    cuda::Tables tables;
    cuda::load(tables, fake);
    cuda::Gpu gpu{tables, 0};
    cuda::GpuProgram program{problem, step.recipe, 1, serial, {&gpu}};
    const IdMap<TensorId, Bytes> bytes = program.tensor_bytes();
    const auto floats = [&](TensorId tensor) { return (static_cast<std::size_t>(bytes[tensor].count) + 3) / 4; };
    IdMap<TensorId, float*> place(graph.tensor_count(), nullptr);
    for (const TensorId tensor : graph.tensors()) {
      place[tensor] = gpu.keep(floats(tensor) + kGuard);
      std::fill_n(place[tensor] + floats(tensor), kGuard, kUntouched);
    }
    const cuda::Owned stream = cuda::make_stream(tables.runtime);
    for (const OpId op : graph.topological_order()) {
      const std::string name{graph.name(op)};
      CAPTURE(name);
      std::vector<void*> reads, writes;
      for (const TensorId tensor : graph.inputs(op)) reads.push_back(place[tensor]);
      for (const TensorId tensor : graph.outputs(op)) writes.push_back(place[tensor]);
      const std::uint64_t before = touched_by_kernels();
      program.run(op, reads, writes, stream.get());
      tables.runtime.cudaStreamSynchronize(stream.get());
      for (const TensorId tensor : graph.outputs(op)) {
        const float* const guard = place[tensor] + floats(tensor);
        CHECK(std::all_of(guard, guard + kGuard, [](float value) { return value == kUntouched; }));
      }
      constexpr std::int64_t kLeast = 4'096;  // below this, fixed traffic dominates
      if (graph.bytes_accessed(op).count < kLeast) continue;
      const double times =
          static_cast<double>(touched_by_kernels() - before) / static_cast<double>(graph.bytes_accessed(op).count);
      auto& [largest, where] = most[std::string{graph.type(op)}];
      if (times > largest) largest = times, where = spec + ", " + name;
    }
  }
  // These types reread data that a cache holds: overlapping 3 x 3 windows, a small gradient that a view broadcasts, and
  // a lookup's gradient, which compares each index with all others.
  const std::map<std::string, double> again{
      {"AveragePool", 5}, {"AveragePoolGrad", 5}, {"MaxPool", 5}, {"ReluGrad", 4}, {"GatherGrad", 100}};
  CHECK(most.size() > 30);
  for (const auto& found : most) {
    CAPTURE(found.first);
    CAPTURE(found.second.second);
    const auto known = again.find(found.first);
    CHECK(found.second.first <= (known == again.end() ? 3 : known->second));
  }
}

TEST_CASE("a step of each built-in network, made small, computes on two fake GPUs what the cpu computes") {
  std::size_t ran = 0;
  for (const Network& network : networks()) {
    const std::string spec = smallest(network);
    CAPTURE(spec);
    const Model model = make_network(spec);
    const TrainingStep step = training_step(model);
    double flops = 0;
    for (const OpId op : step.graph.ops()) flops += step.graph.flops(op).value;
    if (flops > most_flops()) continue;
    ++ran;
    const Problem core{step.graph, make_cluster(preset_cluster("1xcpu-core"))};
    const Schedule serial = serial_schedule(core, DeviceId{0});
    const double expected = make_cpu_backend()->prepare(core, {.recipe = &step.recipe}, serial)->step().loss;
    const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
    const Schedule spread = random_groups(problem, 1);
    FakeCuda fake{{.devices = 2, .deterministic_convolutions = false, .other_dnn = ran % 2 == 0}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake});
      CHECK(backend->prepare(problem, {.recipe = &step.recipe}, spread)->step().loss ==
            doctest::Approx(expected).epsilon(1e-3));
    }
    CHECK(fake.alive() == 0);
  }
  MESSAGE(ran << " of " << networks().size() << " networks are small enough");
  CHECK(ran * (is_sanitized() ? 3 : 2) >= networks().size());
}
