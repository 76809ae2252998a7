#include "trainyard/rewrite/steps.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "trainyard/graph/builder.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

namespace trainyard::test {
namespace {

std::vector<std::string> names_after(const Graph& graph, std::string_view op) {
  std::vector<std::string> names;
  for (const OpId earlier : graph.after(*graph.find_op(op))) names.emplace_back(graph.name(earlier));
  return names;
}
using Names = std::vector<std::string>;

/// A linear layer: the op that reads the weight, its gradient, its update.
GraphBuilder layer() {
  GraphBuilder builder{"layer"};
  builder.add({.name = "x", .outputs = {{"x.out", Bytes{4}}}});
  builder.add({.name = "y",
               .colocate = "w",
               .parameter_bytes = Bytes{10},
               .state_bytes = Bytes{20},
               .inputs = {"x.out"},
               .outputs = {{"y.out", Bytes{4}}}});
  builder.add({.name = "z", .colocate = "w", .inputs = {"x.out"}});
  builder.add({.name = "y/grad",
               .phase = Phase::backward,
               .colocate = "w",
               .inputs = {"y.out"},
               .outputs = {{"w.grad", Bytes{10}}}});
  builder.add({.name = "w/update", .phase = Phase::update, .colocate = "w", .inputs = {"w.grad"}});
  return builder;
}

TEST_CASE("an op that reads a parameter waits for its update in the step before, and nothing else does") {
  const Graph graph = layer().build();
  const UnrolledGraph two = unroll_steps(graph, 2);
  CHECK(two.graph.op_count() == 10);
  CHECK(two.graph.name(OpId{6}) == "y@2");
  CHECK(two.original[OpId{6}] == OpId{1});
  CHECK(two.step(OpId{6}) == 1);
  CHECK(two.graph.name(two.graph.inputs(OpId{6}).front()) == "x.out@2");
  CHECK(names_after(two.graph, "y@1") == Names{});
  CHECK(names_after(two.graph, "x@2") == Names{});
  CHECK(names_after(two.graph, "y@2") == Names{"w/update@1"});
  CHECK(names_after(two.graph, "z@2") == Names{"w/update@1"});
  // These ops come after y@2, which already waits.
  CHECK(names_after(two.graph, "y/grad@2") == Names{});
  CHECK(names_after(two.graph, "w/update@2") == Names{});
  CHECK(two.ties == 2);
}

TEST_CASE("parameters and state are held by the first step alone") {
  const UnrolledGraph three = unroll_steps(layer().build(), 3);
  for (const OpId op : three.graph.ops()) {
    const bool holds = three.graph.name(op) == "y@1";
    CHECK(three.graph.parameter_bytes(op) == Bytes{holds ? 10 : 0});
    CHECK(three.graph.state_bytes(op) == Bytes{holds ? 20 : 0});
  }
}

TEST_CASE("one step is the graph itself") {
  const Graph graph = layer().build();
  const UnrolledGraph one = unroll_steps(graph, 1);
  CHECK(one.graph == graph);
  CHECK(one.ties == 0);
  CHECK(one.placed_as(OpId{3}) == OpId{3});
}

TEST_CASE("an update without a group ties itself, and without updates nothing is tied") {
  GraphBuilder builder;
  builder.add({.name = "a", .outputs = {{"t", Bytes{1}}}});
  builder.add({.name = "u", .phase = Phase::update, .inputs = {"t"}});
  const UnrolledGraph two = unroll_steps(std::move(builder).build(), 2);
  CHECK(names_after(two.graph, "a@2") == Names{});
  CHECK(names_after(two.graph, "u@2") == Names{"u@1"});
  CHECK(two.ties == 1);

  GraphBuilder plain;
  plain.add({.name = "a", .colocate = "g"});
  CHECK(unroll_steps(std::move(plain).build(), 5).ties == 0);
}

TEST_CASE("two updates of one group: what reads waits for both, each update for itself") {
  GraphBuilder builder;
  builder.add({.name = "f", .colocate = "g"});
  builder.add({.name = "u", .phase = Phase::update, .colocate = "g"});
  builder.add({.name = "v", .phase = Phase::update, .colocate = "g", .after = {"u"}});
  const UnrolledGraph two = unroll_steps(std::move(builder).build(), 2);
  CHECK(names_after(two.graph, "f@2") == Names{"u@1", "v@1"});
  CHECK(names_after(two.graph, "u@2") == Names{"u@1"});
  CHECK(names_after(two.graph, "v@2") == Names{"u@2", "v@1"});
  CHECK(two.ties == 4);
}

TEST_CASE("inputs are there one step ahead: the third step's wait for what read the first's") {
  GraphBuilder builder;
  builder.add({.name = "x", .type = "Input", .outputs = {{"t", Bytes{8}}, {"s", Bytes{2}}}});
  builder.add({.name = "f", .inputs = {"t", "s"}});
  builder.add({.name = "g", .inputs = {"s"}});
  const UnrolledGraph four = unroll_steps(std::move(builder).build(), 4);
  CHECK(names_after(four.graph, "x@1") == Names{});
  CHECK(names_after(four.graph, "x@2") == Names{});
  CHECK(names_after(four.graph, "x@3") == Names{"f@1", "g@1"});
  CHECK(names_after(four.graph, "x@4") == Names{"f@2", "g@2"});
  CHECK(four.ties == 0);
}

TEST_CASE("what is kept is kept by an op of no time that ends its step") {
  GraphBuilder builder;
  builder.add({.name = "a", .outputs = {{"t", Bytes{1}, true}, {"s", Bytes{1}}}});
  builder.add({.name = "b", .inputs = {"s"}});
  builder.add({.name = "a/kept"});  // takes the keeper's first name
  const UnrolledGraph two = unroll_steps(std::move(builder).build(), 2);
  REQUIRE(two.graph.op_count() == 8);
  CHECK(names_after(two.graph, "a/kept2@2") == Names{"b@2", "a/kept@2"});
  const OpId keeper = *two.graph.find_op("a/kept2@2");
  CHECK(two.step(keeper) == 1);
  CHECK(two.placed_as(keeper) == OpId{0});
  CHECK(two.graph.colocation_group(keeper) == two.graph.colocation_group(OpId{0}));
  REQUIRE(two.graph.inputs(keeper).size() == 1);
  CHECK(two.graph.name(two.graph.inputs(keeper).front()) == "t@2");
  for (const TensorId tensor : two.graph.tensors()) CHECK(!two.graph.kept(tensor));
}

TEST_CASE("every parameter of a network ties the op that reads it, and the one that makes its gradient") {
  const Graph graph = training_graph(make_network("vgg16:batch=1"));
  std::size_t updates = 0;
  for (const OpId op : graph.ops()) updates += graph.phase(op) == Phase::update;
  CHECK(updates == 32);                          // 13 convolutions and 3 linear layers, each with a weight and a bias
  CHECK(unroll_steps(graph, 2).ties == 64);      // Conv and Conv/grad each wait for 2 updates
  CHECK(unroll_steps(graph, 4).ties == 3 * 64);  // between 4 steps
}

}  // namespace
}  // namespace trainyard::test
