#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/model_sketch.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/training/training.hpp"

using namespace trainyard;
using trainyard::test::ModelSketch;

namespace {

/// A random network on rows: products, activations, sums, normalizations, splits and joins of earlier values, with some
/// weights shared.
Model random_model(std::uint64_t seed) {
  using Integers = std::vector<std::int64_t>;
  Random random{seed};
  ModelSketch net;
  const std::int64_t rows = random.between(1, 4);
  std::vector<ValueId> made{net.input("x", {rows, random.between(1, 6)})};
  std::map<std::pair<std::int64_t, std::int64_t>, ValueId> weights;  // by shape, for sharing
  int parameters = 0;
  const auto parameter = [&](Shape shape) {
    return net.parameter("p" + std::to_string(parameters++), std::move(shape));
  };
  const auto width = [&](ValueId id) { return net.shape(id)[1]; };
  const auto product = [&](ValueId x, std::int64_t to) {
    ValueId& known = weights.try_emplace({width(x), to}, ValueId::none()).first->second;
    if (known.is_none() || random.chance(0.5)) known = parameter({width(x), to});
    std::vector<ValueId> inputs{x, known};
    if (random.chance(0.5)) inputs.push_back(parameter({to}));
    return net.node("Gemm", inputs, {rows, to});
  };
  made.push_back(product(made[0], random.between(1, 6)));
  const auto nodes = random.between(3, 25);
  while (static_cast<std::int64_t>(net.model().nodes.size()) < nodes) {
    const ValueId x = made[random.below(made.size())], other = made[random.below(made.size())];
    const std::int64_t n = width(x);
    switch (random.below(9)) {
      case 0:
        made.push_back(product(x, random.between(1, 6)));
        break;
      case 1:
        made.push_back(net.node(random.chance(0.5) ? "Relu" : "Gelu", {x}, {rows, n}));
        break;
      case 2:
        if (width(other) == n) made.push_back(net.node(random.chance(0.5) ? "Add" : "Mul", {x, other}, {rows, n}));
        break;
      case 3:
        made.push_back(net.node("Add", {x, parameter({n})}, {rows, n}));
        break;
      case 4:
        made.push_back(net.node("LayerNormalization", {x, parameter({n}), parameter({n})}, {rows, n}));
        break;
      case 5:
        made.push_back(net.node("Dropout", {x}, {rows, n}, {{"ratio", 0.5}}));
        break;
      case 6:
        made.push_back(net.node("Concat", {x, other}, {rows, n + width(other)}));
        break;
      case 7:
        if (n > 1)
          for (const ValueId part : net.nodes("Split", {x}, {{rows, 1}, {rows, n - 1}},
                                              {{"axis", std::int64_t{1}}, {"split", Integers{1, n - 1}}}))
            made.push_back(part);
        break;
      default:
        if (n > 1)
          made.push_back(net.node("Slice", {x}, {rows, n - 1},
                                  {{"starts", Integers{0}}, {"ends", Integers{n - 1}}, {"axes", Integers{1}}}));
    }
  }
  // All unread values go into the output.
  std::set<ValueId> read;
  for (const Node& node : net.model().nodes) read.insert(node.inputs.begin(), node.inputs.end());
  std::vector<ValueId> ends;
  std::int64_t sum = 0;
  for (const ValueId each : made)
    if (!read.count(each)) ends.push_back(each), sum += width(each);
  const ValueId all = ends.size() == 1 ? ends[0] : net.node("Concat", ends, {rows, sum});
  return net.finish({product(all, 7)});
}

std::int64_t parameter_bytes(const Graph& graph) {
  std::int64_t sum = 0;
  for (const OpId op : graph.ops()) sum += graph.parameter_bytes(op).count;
  return sum;
}

double flops(const Graph& graph, Phase phase) {
  double sum = 0;
  for (const OpId op : graph.ops())
    if (graph.phase(op) == phase) sum += graph.flops(op).value;
  return sum;
}

}  // namespace

TEST_CASE("random networks: the step is one graph whose parts add up at either granularity") {
  for (std::uint64_t seed = 1; seed <= test::rounds(300U); ++seed) {
    CAPTURE(seed);
    const Model model = random_model(seed);
    const TrainingStep whole = training_step(model, {.optimizer = Optimizer::momentum});
    const TrainingStep fine =
        training_step(model, {.optimizer = Optimizer::momentum, .granularity = Granularity::fine});

    CHECK(whole.graph.topological_order().size() == whole.graph.op_count());
    CHECK(whole.summary.parameters == model.parameter_count());
    CHECK(parameter_bytes(whole.graph) == 4 * whole.summary.parameters);
    CHECK(parameter_bytes(fine.graph) == 4 * whole.summary.parameters);
    CHECK(whole.summary.state_bytes == whole.summary.parameter_bytes);  // momentum has the parameters' size
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::update})
      CHECK(flops(whole.graph, phase) == flops(fine.graph, phase));
    CHECK(whole.summary.backward_flops.value == flops(whole.graph, Phase::backward));
    CHECK(whole.summary.saved_bytes == fine.summary.saved_bytes);
    CHECK(whole.summary.gradient_adds == fine.summary.gradient_adds);
    CHECK(whole.summary.backward_matmul_flops == fine.summary.backward_matmul_flops);
    CHECK(whole.summary.backward_matmul_flops <= whole.summary.forward_matmul_flops * 2);
    CHECK(whole.summary.backward_ops <= fine.summary.backward_ops);
  }
}

TEST_CASE("random networks: no gradient is lost, none is made twice") {
  for (std::uint64_t seed = 1; seed <= test::rounds(300U); ++seed) {
    CAPTURE(seed);
    const Graph graph = training_graph(random_model(seed));
    for (const OpId op : graph.ops()) {
      if (graph.type(op) != "Input") CHECK((graph.flops(op).value > 0 || graph.bytes_accessed(op).count > 0));
      if (graph.phase(op) != Phase::backward) continue;
      for (const TensorId tensor : graph.outputs(op)) {
        CAPTURE(graph.name(tensor));
        CHECK(graph.consumers(tensor).size() >= 1);  // every gradient is read
      }
    }
    for (const TensorId tensor : graph.tensors()) CHECK(graph.bytes(tensor).count > 0);
  }
}

TEST_CASE("random networks: forward ops never wait for backward ops, and updates are last") {
  for (std::uint64_t seed = 1; seed <= test::rounds(300U); ++seed) {
    CAPTURE(seed);
    const Graph graph = training_graph(random_model(seed));
    for (const TensorId tensor : graph.tensors())
      for (const OpId consumer : graph.consumers(tensor))
        CHECK(graph.phase(graph.producer(tensor)) <= graph.phase(consumer));
    for (const OpId op : graph.ops())
      if (graph.phase(op) == Phase::update) CHECK(graph.outputs(op).empty());
  }
}

TEST_CASE("random networks: the ops of a parameter are in one group with its update") {
  for (std::uint64_t seed = 1; seed <= test::rounds(300U); ++seed) {
    CAPTURE(seed);
    const Model model = random_model(seed);
    const Graph graph = training_graph(model);
    const OpIndex index{graph};
    for (const Value& value : model.values) {
      if (value.role != Value::Role::parameter) continue;
      const auto update = index.find(value.name + "/update");
      REQUIRE(update.has_value());
      const std::string& group = graph.colocation_group(*update);
      CHECK(!group.empty());
      for (const Node& node : model.nodes) {
        const auto id = ValueId{static_cast<std::size_t>(&value - &*model.values.begin())};
        if (std::find(node.inputs.begin(), node.inputs.end(), id) == node.inputs.end()) continue;
        CHECK(graph.colocation_group(*index.find(node.name)) == group);
      }
      // The gradient is produced in the group, so it never crosses a link.
      for (const TensorId gradient : graph.inputs(*update))
        CHECK(graph.colocation_group(graph.producer(gradient)) == group);
    }
  }
}
