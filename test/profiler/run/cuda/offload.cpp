#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/rewritten_recipe.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Loss and parameter checksum after each of three steps.
struct RelayedSteps {
  std::vector<double> losses;
  std::vector<std::uint64_t> checksums;

  friend bool operator==(const RelayedSteps&, const RelayedSteps&) = default;
};

RelayedSteps relayed_steps(Backend& backend, const Problem& problem, const TrainingRecipe& recipe,
                           const Schedule& schedule) {
  const auto run = backend.prepare(problem, {.recipe = &recipe}, schedule);
  RelayedSteps steps;
  for (int i = 0; i < 3; ++i) {
    steps.losses.push_back(run->step().loss);
    steps.checksums.push_back(run->parameter_checksum());
  }
  return steps;
}

/// Offloads every tensor that allows it. In topological order, the third op after its last forward reader awaits the
/// copy out, and the copy back starts two ops before its first backward reader.
std::vector<Rewrite> all_tensors(const Graph& graph) {
  const std::vector<OpId>& order = graph.topological_order();
  IdMap<OpId, std::size_t> turn(graph.op_count());
  for (std::size_t i = 0; i < order.size(); ++i) turn[order[i]] = i;
  std::vector<Rewrite> rewrites;
  for (const TensorId tensor : graph.tensors()) {
    std::size_t last = turn[graph.producer(tensor)], first = order.size();
    for (const OpId reader : graph.consumers(tensor))
      if (graph.phase(reader) == Phase::forward)
        last = std::max(last, turn[reader]);
      else
        first = std::min(first, turn[reader]);
    if (graph.phase(graph.producer(tensor)) != Phase::forward || graph.kept(tensor) || first == order.size()) continue;
    if (first < last + 6) continue;
    rewrites.emplace_back(Offload{std::string{graph.name(tensor)}, std::string{graph.name(order[last + 3])},
                                  std::string{graph.name(order[first - 2])}});
  }
  return rewrites;
}

/// A convolutional network whose ops keep more than their outputs for the backward pass: batch norms, pools, dropout.
Model kept_extras() {
  zoo::LayerBuilder net{"kept-extras"};
  net.at("stem");
  ValueId x = net.input("x", {4, 3, 8, 8});
  x = net.relu(net.batch_norm(net.conv(x, {.channels = 8, .kernel = {3, 3}, .padding = {1, 1}})));
  net.at("tail");
  x = net.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
  x = net.dropout(net.global_average_pool(x), 0.25);
  return std::move(net).finish({net.gemm(net.flatten(x), 5)});
}

/// Places offloading ops on `host` and all others on `device`; a strict policy follows one topological order.
Schedule beside_host(const Problem& problem, DeviceId device, DeviceId host, std::size_t computing, Policy policy) {
  Schedule schedule{
      .placement = Placement(problem.op_count(), device), .policy = policy, .rewrites = problem.rewrites()};
  for (std::size_t i = computing; i < problem.op_count(); ++i) schedule.placement[OpId{i}] = host;
  if (policy != Policy::strict) return schedule;
  schedule.order.assign(problem.device_count(), {});
  for (const OpId op : problem.graph().topological_order()) schedule.order[schedule.placement[op]].push_back(op);
  return schedule;
}

}  // namespace

TEST_CASE("a step whose tensors wait on the host or are computed again computes the bits that it computes without") {
  for (const Model& network :
       {make_network("lenet:batch=2"), kept_extras(),
        make_network("transformer:batch=1,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4")}) {
    CAPTURE(network.name);
    const TrainingStep step = training_step(network, {.optimizer = Optimizer::momentum});
    const Problem cores{step.graph, make_cluster(preset_cluster("2xcpu-core"))};
    const Problem plain{step.graph, make_cluster(preset_cluster("cpu-v100"))};
    const auto cpu = make_cpu_backend();
    const RelayedSteps expected = relayed_steps(*cpu, cores, step.recipe, serial_schedule(cores, DeviceId{0}));
    for (const bool again : {false, true}) {
      CAPTURE(again);
      std::vector<Rewrite> rewrites;
      if (again) {  // recomputes the first half of the forward pass
        Recompute half;
        for (const OpId op : step.graph.topological_order())
          if (step.graph.phase(op) == Phase::forward && step.graph.type(op) != "Input")
            half.ops.emplace_back(step.graph.name(op));
        half.ops.resize(half.ops.size() / 2);
        rewrites.emplace_back(std::move(half));
      }
      const Graph recomputed = apply_rewrites(step.graph, std::span<const Rewrite>{rewrites});
      CHECK((recomputed.op_count() > step.graph.op_count()) == again);
      const std::vector<Rewrite> waiting = all_tensors(recomputed);
      REQUIRE_FALSE(waiting.empty());
      rewrites.insert(rewrites.end(), waiting.begin(), waiting.end());
      const Problem two = apply_rewrites(cores, rewrites);
      const TrainingRecipe recipe = rewritten_recipe(step.recipe, step.graph, rewrites);
      for (const Policy policy : {Policy::fifo, Policy::strict})
        CHECK(relayed_steps(*cpu, two, recipe,
                            beside_host(two, DeviceId{0}, DeviceId{1}, recomputed.op_count(), policy)) == expected);

      // A GPU's bits differ from the CPU's, so its reference is a step on the GPU.
      const Problem beside = apply_rewrites(plain, rewrites);
      FakeCuda fake{{.devices = 1}};
      {
        const auto cuda = cuda::make_cuda_backend({.libraries = &fake});
        const RelayedSteps alone = relayed_steps(*cuda, plain, step.recipe, serial_schedule(plain, DeviceId{1}));
        CHECK(alone.losses[2] == doctest::Approx(expected.losses[2]).epsilon(1e-4));
        for (const Policy policy : {Policy::fifo, Policy::strict})
          CHECK(relayed_steps(*cuda, beside, recipe,
                              beside_host(beside, DeviceId{1}, DeviceId{0}, recomputed.op_count(), policy)) == alone);
      }
      CHECK(fake.alive() == 0);
    }
  }
}

TEST_CASE("what divides a step among microbatches is refused by a GPU, by name") {
  const TrainingStep step = training_step(make_network("lenet:batch=2"), {});
  const std::vector<Rewrite> rewrites{Microbatch{2}};
  const Problem parts = apply_rewrites(Problem{step.graph, make_cluster(preset_cluster("cpu-v100"))}, rewrites);
  const TrainingRecipe recipe = rewritten_recipe(step.recipe, step.graph, rewrites);
  FakeCuda fake{{.devices = 1}};
  const auto cuda = cuda::make_cuda_backend({.libraries = &fake});
  Schedule schedule{.placement = Placement(parts.op_count(), DeviceId{1}), .rewrites = rewrites};
  CHECK_THROWS_WITH_AS(static_cast<void>(cuda->prepare(parts, {.recipe = &recipe}, schedule)),
                       doctest::Contains("accumulate~2"), InputError);
}
