#include <doctest/doctest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/host.hpp"
#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/executor.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/cuda/plan.hpp"
#include "profiler/run/random_groups.hpp"
#include "profiler/validate/validate.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Loss and parameters after each of three steps.
struct Steps {
  std::vector<double> losses;
  std::vector<std::vector<std::vector<float>>> parameters;  // [step][parameter]
};

Steps three_steps(Backend& backend, const Problem& problem, const TrainingRecipe& recipe, const Schedule& schedule) {
  const auto run = backend.prepare(problem, {.recipe = &recipe}, schedule);
  Steps steps;
  for (int i = 0; i < 3; ++i) {
    steps.losses.push_back(run->step().loss);
    steps.parameters.emplace_back();
    for (const ValueId id : recipe.model.values.ids())
      if (recipe.model.values[id].role == Value::Role::parameter) steps.parameters.back().push_back(run->parameter(id));
  }
  return steps;
}

void check_same(const Steps& steps, const Steps& expected, bool parameters = true) {
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(steps.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-4));
    for (std::size_t p = 0; parameters && p < expected.parameters[i].size(); ++p) {
      double worst = 0;
      for (std::size_t k = 0; k < expected.parameters[i][p].size(); ++k)
        worst = std::max(worst, std::abs(static_cast<double>(steps.parameters[i][p][k]) -
                                         static_cast<double>(expected.parameters[i][p][k])));
      CAPTURE(p);
      CHECK(worst < 2e-6);  // updates are 1e-3 x gradient, so these agree to 0.002
    }
  }
}

/// A network with batch norms over many elements, a residual, all kinds of pools, and dropout.
Model small_cnn() {
  zoo::LayerBuilder net{"small-cnn"};
  net.at("stem");
  ValueId x = net.input("x", {4, 3, 8, 8});
  x = net.relu(net.batch_norm(net.conv(x, {.channels = 8, .kernel = {3, 3}, .padding = {1, 1}})));
  net.at("block");
  const ValueId branch = net.batch_norm(net.conv(x, {.channels = 8, .kernel = {3, 3}, .padding = {1, 1}}));
  x = net.max_pool(net.relu(net.add(x, branch)), {.kernel = 3, .stride = 2, .padding = 1});
  net.at("tail");
  x = net.average_pool(x, {.kernel = 3, .stride = 1, .padding = 1, .count_padding = false});
  x = net.dropout(net.global_average_pool(x), 0.25);
  return std::move(net).finish({net.gemm(net.flatten(x), 5)});
}

/// Compares random placements of a network on a CPU and two GPUs with one core.
void compare(const Model& network, const TrainingOptions& options, bool parameters = true) {
  CAPTURE(network.name);
  const TrainingStep step = training_step(network, options);
  const Problem core{step.graph, make_cluster(preset_cluster("1xcpu-core"))};
  const Steps expected = three_steps(*make_cpu_backend(), core, step.recipe, serial_schedule(core, DeviceId{0}));
  const Problem problem{step.graph, make_cluster(preset_cluster("cpu-2x2080ti"))};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    FakeCuda fake{{.devices = 2}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake});
      check_same(three_steps(*backend, problem, step.recipe, random_groups(problem, seed)), expected, parameters);
    }
    CHECK(fake.alive() == 0);
  }
}

}  // namespace

TEST_CASE("each op of a convolutional network by itself on a CPU beside a GPU computes what the cpu computes") {
  const TrainingStep step = training_step(make_network("lenet:batch=2"), {.optimizer = Optimizer::sgd});
  const Problem core{step.graph, make_cluster(preset_cluster("1xcpu-core"))};
  const Steps expected = three_steps(*make_cpu_backend(), core, step.recipe, serial_schedule(core, DeviceId{0}));
  const Problem problem{step.graph, make_cluster(preset_cluster("cpu-2x2080ti"))};
  FakeCuda fake{{.devices = 2}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    for (const GroupId group : problem.groups()) {
      CAPTURE(step.graph.name(problem.group_ops(group)[0]));
      Schedule schedule;
      schedule.placement = Placement(problem.op_count(), DeviceId{1});
      for (const OpId op : problem.group_ops(group)) schedule.placement[op] = DeviceId{0};
      check_same(three_steps(*backend, problem, step.recipe, schedule), expected);
    }
  }
  CHECK(fake.alive() == 0);
}

TEST_CASE("networks on a CPU and two GPUs compute what the cpu computes, on every placement") {
  const Model lenet = make_network("lenet:batch=2");
  compare(lenet, {.optimizer = Optimizer::sgd});
  compare(lenet, {.optimizer = Optimizer::momentum, .granularity = Granularity::fine});
  compare(small_cnn(), {.optimizer = Optimizer::momentum});
  compare(make_network("transformer:batch=1,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4"),
          {.optimizer = Optimizer::sgd});
  compare(make_network("rnnlm:batch=2,steps=3,layers=2,hidden=8,vocabulary=20"), {.optimizer = Optimizer::sgd});
}

TEST_CASE("the thread that launches has a core that no CPU of the cluster has, while a step runs") {
  GraphBuilder builder{"pair"};
  builder.add({.name = "a",
               .times = {{"cpu", Nanoseconds{1'000}}, {"gpu", Nanoseconds{1'000}}},
               .outputs = {{"t", Bytes{64}}}});
  builder.add({.name = "b", .times = {{"cpu", Nanoseconds{1'000}}, {"gpu", Nanoseconds{1'000}}}, .inputs = {"t"}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("cpu-2x2080ti"))};
  REQUIRE(problem.cluster().device(DeviceId{0}).device_class == "cpu");
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{1}, DeviceId{0}});
  const cuda::ExecutionPlan plan = cuda::make_plan(problem, schedule, simulate(problem, schedule));
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) return report_skipped("this machine has one core");
  FakeCuda fake{{.devices = 2}};
  cuda::Tables tables;
  cuda::load(tables, fake);
  std::vector<cuda::Target> targets{{.host = true, .core = cores.back()}, {.gpu = 0}, {.gpu = 1}};
  cuda::CudaExecutor executor{tables, plan, targets};
  const auto allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    return set;
  };
  const cpu_set_t before = allowed();
  int launched = 0;
  executor.run(
      [&](const cuda::PlanItem&, std::span<void* const>, std::span<void* const>, cuda::Stream stream) {
        if (!stream) return std::size_t{0};
        const cpu_set_t now = allowed();
        CHECK(CPU_COUNT(&now) == 1);
        CHECK_FALSE(CPU_ISSET(static_cast<std::size_t>(cores.back()), &now));
        ++launched;
        FakeCuda::kernel(stream, 1'000, {}, {});
        return std::size_t{1};
      },
      {.warm = 0, .measured = 1});
  CHECK(launched == 1);
  const cpu_set_t after = allowed();
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("time that other work takes of a CPU's op beside GPUs is told, and the step does not count") {
  GraphBuilder builder{"one"};
  builder.add({.name = "a", .times = {{"cpu", Nanoseconds{20'000'000}}, {"gpu", Nanoseconds{1'000}}}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("cpu-2x2080ti"))};
  Schedule schedule;
  schedule.placement = Placement(std::vector<DeviceId>{DeviceId{0}});
  FakeCuda fake{{.devices = 2}};
  const auto backend = cuda::make_cuda_backend({.libraries = &fake});
  const auto run = backend->prepare(problem, {}, schedule);
  run->step();
  // Spinning threads on all cores take about half of the 20 ms. A step without any trace of them is repeated.
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (const int core : usable_cores())
    others.emplace_back([&stop, core] {
      pin_to(core);
      while (!stop.load()) {
      }
    });
  bool seen = false;
  for (int i = 0; i < 50 && !seen; ++i) {
    const StepTrace& trace = run->step();
    seen = !trace.lost.empty() && trace.lost[OpId{0}].count > 1'000'000 && trace.contaminated == "other-work";
  }
  stop.store(true);
  for (std::thread& other : others) other.join();
  CHECK(seen);
}

TEST_CASE("Adam on a CPU and two GPUs") {
  // Adam turns a gradient of mere rounding error into a full step, so only losses are compared.
  compare(make_network("lenet:batch=2"), {.optimizer = Optimizer::adam}, false);
}

TEST_CASE("a schedule on a CPU and two GPUs is validated, its outputs but for rounding") {
  const TrainingStep step = training_step(small_cnn(), {.optimizer = Optimizer::adam});
  const Problem problem{step.graph, make_cluster(preset_cluster("cpu-2x2080ti"))};
  FakeCuda fake{{.devices = 2}};
  {
    const auto backend = cuda::make_cuda_backend({.libraries = &fake});
    const auto results = validate(*backend, problem, {.recipe = &step.recipe}, {{"mixed", random_groups(problem, 1)}},
                                  {.rounds = 1, .most_rounds = 1});
    CHECK(results[0].outputs_agree);
    CHECK(results[0].steps == 3);
  }
  CHECK(fake.alive() == 0);
}
