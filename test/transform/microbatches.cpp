#include "trainyard/transform/microbatches.hpp"

#include <doctest/doctest.h>

#include <string>

#include "trainyard/core/error.hpp"
#include "trainyard/transform/recompute.hpp"
#include "trainyard/transform/split_op.hpp"
#include "trainyard/transform/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

OpId op_named(const Graph& graph, const std::string& name) {
  const auto op = graph.find_op(name);
  REQUIRE_MESSAGE(op, name);
  return *op;
}

std::vector<std::string> inputs_of(const Graph& graph, const std::string& op) {
  std::vector<std::string> names;
  for (const TensorId tensor : graph.inputs(op_named(graph, op))) names.emplace_back(graph.name(tensor));
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("microbatches share the work, hold parameters once, and their gradients add up before the update") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  const MicrobatchGraph batched = split_batch(whole, 4);
  const Graph& graph = batched.graph;
  double flops = 0, expected = 0;
  Bytes parameters{0}, expected_parameters{0};
  for (const OpId op : whole.ops()) {
    expected_parameters += whole.parameter_bytes(op);
    if (whole.phase(op) != Phase::update) expected += whole.flops(op).value;
  }
  for (const OpId op : graph.ops()) {
    parameters += graph.parameter_bytes(op);
    if (graph.phase(op) != Phase::update && !graph.name(op).starts_with("conv1/conv.weight.grad/accumulate"))
      flops += graph.type(op) == "AddGrad" ? 0 : graph.flops(op).value;
  }
  CHECK(parameters == expected_parameters);
  CHECK(flops == doctest::Approx(expected));
  CHECK(inputs_of(graph, "conv1/conv~3") == Names{"image~3"});
  CHECK(graph.bytes(*graph.outputs(op_named(graph, "image~3")).begin()) == Bytes{200704 / 4});
  CHECK(inputs_of(graph, "conv1/conv.weight.grad/accumulate~2") ==
        Names{"conv1/conv.weight.grad~1", "conv1/conv.weight.grad~2"});
  CHECK(inputs_of(graph, "conv1/conv.weight.grad/accumulate~4") ==
        Names{"conv1/conv.weight.grad/accumulate~3", "conv1/conv.weight.grad~4"});
  CHECK(inputs_of(graph, "conv1/conv.weight/update") == Names{"conv1/conv.weight.grad/accumulate~4"});
  for (const char* op : {"conv1/conv~1", "conv1/conv~4", "conv1/conv.weight.grad/accumulate~4"})
    CHECK(graph.colocation_group(op_named(graph, op)) == "conv1/conv.weight");
  CHECK(batched.microbatch[op_named(graph, "conv1/conv~3")] == 2);
  CHECK(batched.original[op_named(graph, "conv1/conv~3")] == op_named(whole, "conv1/conv"));
}

TEST_CASE("one microbatch is the graph itself") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  CHECK(split_batch(whole, 1).graph == whole);
}

TEST_CASE("of a segment that runs again the backward pass reads the copies, once the gradient has come") {
  // a -> b -> c -> loss; b and c in one segment
  GraphBuilder builder{"chain"};
  const auto forward = [&](const char* name, Names inputs) {
    builder.add(
        {.name = name, .parameter_bytes = Bytes{4}, .inputs = std::move(inputs), .outputs = {{name, Bytes{8}}}});
  };
  const auto backward = [&](const char* name, Names inputs) {
    builder.add({.name = name, .phase = Phase::backward, .inputs = std::move(inputs), .outputs = {{name, Bytes{8}}}});
  };
  forward("a", {});
  forward("b", {"a"});
  forward("c", {"b"});
  forward("loss", {"c"});
  backward("loss'", {"loss"});
  backward("c'", {"loss'", "b"});
  backward("b'", {"c'", "a", "b"});
  const Graph graph = std::move(builder).build();
  const std::vector<std::vector<OpId>> segments{{OpId{1}, OpId{2}}};
  const RecomputingGraph found = recompute(graph, segments);
  // Nobody needs c again. The checkpoint a is read as it is.
  CHECK(found.graph.op_count() == graph.op_count() + 1);
  CHECK(inputs_of(found.graph, "b/again") == Names{"a"});
  CHECK(inputs_of(found.graph, "c'") == Names{"loss'", "b/again"});
  CHECK(inputs_of(found.graph, "b'") == Names{"c'", "a", "b/again"});
  CHECK(inputs_of(found.graph, "c") == Names{"b"});
  const OpId again = op_named(found.graph, "b/again");
  CHECK(found.graph.phase(again) == Phase::backward);
  CHECK(found.graph.parameter_bytes(again) == Bytes{0});
  REQUIRE(found.graph.after(again).size() == 1);
  CHECK(found.graph.name(found.graph.after(again).front()) == "loss'");
  CHECK(found.original[again] == OpId{1});
}

TEST_CASE("a graph's changes follow each other: run again, in microbatches, in replicas") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  const std::vector<GraphSplit> splits{
      {.parts = 1, .whole = GraphSplit::Whole::recompute, .again = {"conv1/conv"}},
      {.parts = 2, .whole = GraphSplit::Whole::microbatches},
      {.parts = 2, .collective = Collective::ring, .zero = 3, .bucket = Bytes{1}},
  };
  const Graph graph = split_graph(whole, splits);
  CHECK(graph.find_op("conv1/conv~2@2"));
  CHECK(graph.find_op("conv1/conv.weight/update@2"));
  const auto code = [&](std::vector<GraphSplit> wrong) {
    try {
      split_graph(whole, wrong);
    } catch (const InputError& error) {
      return error.findings().front().code + error.findings().front().pointer;
    }
    return std::string{};
  };
  CHECK(code({{.parts = 0, .whole = GraphSplit::Whole::microbatches}}) == "unsplittable/splits/0");
  CHECK(code({{.whole = GraphSplit::Whole::recompute, .again = {"conv1/convolution"}}}) == "unknown-op/splits/0");
  CHECK(code({{.whole = GraphSplit::Whole::recompute, .again = {"conv1/conv/grad"}}}) == "recompute/splits/0");
  CHECK(code({{.parts = 2, .zero = 2}}) == "zero/splits/0");
  CHECK(code({{.parts = std::size_t{1} << 40}}) == "too-large/splits/0");
}
