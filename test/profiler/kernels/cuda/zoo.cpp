#include "trainyard/zoo/zoo.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "profiler/kernels/cuda/gpu_kernels.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/cuda/random_groups.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/model/op_kind.hpp"
#include "trainyard/training/training.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// The network with every number as small as it may be, or nearly so.
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

TEST_CASE("a step of each built-in network, made small, computes on two fake GPUs what the cpu computes") {
  constexpr double kMostFlops = 4e8;  // of a step: the fake's kernels are slow
  std::size_t ran = 0;
  for (const Network& network : networks()) {
    const std::string spec = smallest(network);
    CAPTURE(spec);
    const Model model = make_network(spec);
    const TrainingStep step = training_step(model);
    double flops = 0;
    for (const OpId op : step.graph.ops()) flops += step.graph.flops(op).value;
    if (flops > kMostFlops) continue;
    ++ran;
    const Problem core{step.graph, make_cluster(preset_cluster("1xcpu-core"))};
    const Schedule serial = serial_schedule(core, DeviceId{0});
    const double expected = make_cpu_backend()->prepare(core, {.recipe = &step.recipe}, serial)->step().loss;
    const Problem problem{step.graph, make_cluster(preset_cluster("2xV100"))};
    const Schedule spread = random_groups(problem, 1);
    FakeCuda fake{{.devices = 2, .deterministic_convolutions = false}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake});
      CHECK(backend->prepare(problem, {.recipe = &step.recipe}, spread)->step().loss ==
            doctest::Approx(expected).epsilon(1e-3));
    }
    CHECK(fake.alive() == 0);
  }
  MESSAGE(ran << " of " << networks().size() << " networks are small enough");
  CHECK(ran * 2 >= networks().size());
}
