#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "profiler/cpu/cpu_backend.hpp"
#include "profiler/cuda/cuda_backend.hpp"
#include "profiler/cuda/fake_cuda.hpp"
#include "profiler/measure.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/transform/training.hpp"
#include "trainyard/zoo/layers.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

using zoo::LayerBuilder;

struct Case {
  std::string name;
  Shape shape;  // of the array whose gradient is compared
  std::function<ValueId(LayerBuilder&, ValueId)> layers;
};

Model model_of(const Case& c) {
  LayerBuilder net{c.name};
  net.at("op");
  const ValueId x = net.add(net.input("x", c.shape), net.parameter("p", c.shape));
  return std::move(net).finish({net.gemm(net.flatten(c.layers(net, x)), 3)});
}

ValueId padded(LayerBuilder& net, ValueId x, const char* mode, std::vector<std::int64_t> pads) {
  return net.append("Pad", {x, net.constant(std::move(pads))}, {{"mode", std::string{mode}}});
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"pad",
       {2, 3, 4, 5},
       [](auto& net, ValueId x) {
         return padded(net, x, "constant", {0, 0, 1, 2, 0, 1, 0, 3});
       }},
      {"crop",
       {2, 3, 4, 5},
       [](auto& net, ValueId x) {
         return padded(net, x, "constant", {0, 0, -1, -2, 0, 0, 1, 1});
       }},
      {"edge",
       {2, 3, 4},
       [](auto& net, ValueId x) {
         return padded(net, x, "edge", {0, 2, 1, 0, 0, 3});
       }},
      {"reflect",
       {2, 3, 4},
       [](auto& net, ValueId x) {
         return padded(net, x, "reflect", {0, 2, 1, 0, 0, 3});
       }},
      {"wrap",
       {2, 3, 4},
       [](auto& net, ValueId x) {
         return padded(net, x, "wrap", {0, 2, 1, 0, 0, 3});
       }},
  };
  return all;
}

/// Loss and parameters after a step of gradient descent.
struct Step {
  double loss;
  std::vector<std::vector<float>> parameters;
};
Step step(Backend& backend, const Problem& problem, const TrainingRecipe& recipe) {
  const Schedule schedule = serial_schedule(problem, DeviceId{0});
  const auto run = backend.prepare(problem, {.recipe = &recipe}, schedule);
  Step result{.loss = run->step().loss, .parameters = {}};
  for (const ValueId id : recipe.model.values.ids())
    if (recipe.model.values[id].role == Value::Role::parameter) result.parameters.push_back(run->parameter(id));
  return result;
}

}  // namespace

TEST_CASE("operators and their gradients on a fake GPU compute what the cpu computes") {
  for (const Case& each : cases()) {
    CAPTURE(each.name);
    TrainingRecipe recipe;
    const Graph graph = training_graph(model_of(each), {.optimizer = Optimizer::sgd}, nullptr, &recipe);
    const Problem core{graph, make_cluster(preset_cluster("1xcpu-core"))};
    const Step expected = step(*make_cpu_backend(), core, recipe);
    const Problem gpu{graph, make_cluster(preset_cluster("1xV100"))};
    FakeCuda fake{{.devices = 1}};
    {
      const auto backend = cuda::make_cuda_backend({.libraries = &fake});
      const Step found = step(*backend, gpu, recipe);
      CHECK(found.loss == doctest::Approx(expected.loss).epsilon(1e-5));
      for (std::size_t p = 0; p < expected.parameters.size(); ++p)
        for (std::size_t k = 0; k < expected.parameters[p].size(); ++k)
          CHECK(std::abs(found.parameters[p][k] - expected.parameters[p][k]) < 1e-7F);
    }
    CHECK(fake.alive() == 0);
  }
}
