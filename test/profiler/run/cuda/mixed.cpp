#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "profiler/measure/measure.hpp"
#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/cuda/cuda_backend.hpp"
#include "profiler/run/cuda/fake_cuda.hpp"
#include "profiler/run/cuda/random_groups.hpp"
#include "profiler/validate/validate.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Loss and parameters after each of three steps.
struct Steps {
  std::vector<double> losses;
  std::vector<std::vector<std::vector<float>>> parameters;  // by step, by parameter
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
      CHECK(worst < 2e-6);  // updates are 1e-3 times the gradient: these agree to 0.002
    }
  }
}

/// Batch norms whose statistics are over many elements, a residual, all kinds of pools, and dropout.
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

/// Placements at random of a network on a CPU and two GPUs: as on one core.
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

TEST_CASE("Adam on a CPU and two GPUs") {
  // Where a gradient is nothing but rounding, Adam makes a whole step of it: only the losses can be held together.
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
