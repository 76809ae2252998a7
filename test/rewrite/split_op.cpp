#include "trainyard/rewrite/split_op.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "rewrite/by_name.hpp"
#include "rewrite/lenet_replica.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::inputs_of;
using test::lenet_replica;
using test::op_named;

namespace {

using Names = std::vector<std::string>;

std::vector<std::int64_t> output_bytes(const Graph& graph, const std::string& op) {
  std::vector<std::int64_t> bytes;
  for (const TensorId tensor : graph.outputs(op_named(graph, op))) bytes.push_back(graph.bytes(tensor).count);
  return bytes;
}
Graph split(const Graph& graph, const std::string& op, SplitDimension dimension, std::size_t parts) {
  return apply_rewrites(graph, std::vector<Rewrite>{SplitOp{op, dimension, parts}});
}
using Sizes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE(
    "a convolution in two along the batch: its input is split, the weights go to both, outputs are concatenated") {
  const Graph graph = split(lenet_replica(), "conv2/conv@1", SplitDimension::batch, 2);
  CHECK(inputs_of(graph, "conv2/conv@1/part1") ==
        Names{"conv2/conv@1/split/conv1/max_pool.out@1:1", "conv2/conv/weights"});
  CHECK(output_bytes(graph, "conv2/conv@1/split/conv1/max_pool.out@1") == Sizes{301056 / 2, 301056 / 2});
  CHECK(output_bytes(graph, "conv2/conv@1/part0") == Sizes{409600 / 2});
  CHECK(inputs_of(graph, "conv2/conv@1/concat/conv2/conv.out@1") ==
        Names{"conv2/conv.out@1/part0", "conv2/conv.out@1/part1"});
  CHECK(inputs_of(graph, "conv2/relu@1") == Names{"conv2/conv.out@1"});
  CHECK_FALSE(graph.find_op("conv2/conv@1"));
  const OpId part = op_named(graph, "conv2/conv@1/part0");
  CHECK(graph.flops(part).value == 30822400.0 / 2);
  // All 9664 bytes of weights and bias are read: 9664 + (720320 - 9664) / 2.
  CHECK(graph.bytes_accessed(part) == Bytes{364992});
  CHECK(graph.bytes_accessed(op_named(graph, "conv2/conv@1/concat/conv2/conv.out@1")) == Bytes{2 * 409600});
}

TEST_CASE("a convolution along output channels: weights are split, and the input goes to all") {
  // 16 channels in 3 parts: 5, 5 and 6.
  const Graph graph = split(lenet_replica(), "conv2/conv@1", SplitDimension::channel, 3);
  CHECK(inputs_of(graph, "conv2/conv@1/part2") ==
        Names{"conv1/max_pool.out@1", "conv2/conv@1/split/conv2/conv/weights:2"});
  CHECK(output_bytes(graph, "conv2/conv@1/split/conv2/conv/weights") ==
        Sizes{9664 * 5 / 16, 9664 * 5 / 16, 9664 * 6 / 16});
  CHECK(output_bytes(graph, "conv2/conv@1/part0") == Sizes{409600 / 16 * 5});
  CHECK(output_bytes(graph, "conv2/conv@1/part2") == Sizes{409600 / 16 * 6});
}

TEST_CASE("the gradient of a convolution along the batch: gradients of weights are summed, of data concatenated") {
  const Graph graph = split(lenet_replica(), "conv2/conv/grad@1", SplitDimension::batch, 2);
  CHECK(inputs_of(graph, "conv2/conv/grad@1/part0") == Names{"conv2/conv/grad@1/split/conv2/conv.out.grad@1:0",
                                                             "conv2/conv/grad@1/split/conv1/max_pool.out@1:0",
                                                             "conv2/conv/weights"});
  CHECK(output_bytes(graph, "conv2/conv/grad@1/part0") == Sizes{301056 / 2, 9600, 64});
  const OpId sum = op_named(graph, "conv2/conv/grad@1/sum/conv2/conv.weight.grad@1");
  CHECK(graph.type(sum) == kSumType);
  CHECK(graph.bytes_accessed(sum) == Bytes{3 * 9600});
  CHECK(graph.flops(sum).value == 2400);
  CHECK(graph.find_op("conv2/conv/grad@1/concat/conv1/max_pool.out.grad@1"));
}

TEST_CASE("the gradient of a product along output features: of data summed, of weights concatenated") {
  const Graph graph = split(lenet_replica(), "fc2/gemm/grad@1", SplitDimension::channel, 2);
  CHECK(inputs_of(graph, "fc2/gemm/grad@1/part1") == Names{"fc2/gemm/grad@1/split/fc2/gemm.out.grad@1:1",
                                                           "fc1/relu.out@1",
                                                           "fc2/gemm/grad@1/split/fc2/gemm/weights:1"});
  CHECK(output_bytes(graph, "fc2/gemm/grad@1/part0") == Sizes{30720, 40320 / 2, 336 / 2});
  CHECK(graph.find_op("fc2/gemm/grad@1/sum/fc1/relu.out.grad@1"));
  CHECK(graph.find_op("fc2/gemm/grad@1/concat/fc2/gemm.weight.grad@1"));
}

TEST_CASE("gradients in pieces: of the data, of the weights") {
  const Graph whole = lenet_replica(Granularity::fine);
  const Graph data = split(whole, "conv2/conv/grad_x@1", SplitDimension::channel, 2);
  CHECK(data.find_op("conv2/conv/grad_x@1/sum/conv1/max_pool.out.grad@1"));
  const Graph weights = split(whole, "conv2/conv/grad_w@1", SplitDimension::channel, 2);
  CHECK(inputs_of(weights, "conv2/conv/grad_w@1/part0") ==
        Names{"conv2/conv/grad_w@1/split/conv2/conv.out.grad@1:0", "conv1/max_pool.out@1"});
  CHECK(weights.find_op("conv2/conv/grad_w@1/concat/conv2/conv.weight.grad@1"));
  CHECK(split(whole, "conv2/conv/grad_w@1", SplitDimension::batch, 2)
            .find_op("conv2/conv/grad_w@1/sum/conv2/conv.weight.grad@1"));
}

TEST_CASE("a product of two activations Y = A B: columns of B, and in its gradient A's is summed") {
  GraphBuilder builder;
  builder.add({.name = "a", .outputs = {{"A", Bytes{100}}}});
  builder.add({.name = "b", .outputs = {{"B", Bytes{60}}}});
  builder.add({.name = "mul", .type = "MatMul", .inputs = {"A", "B"}, .outputs = {{"Y", Bytes{40}}}});
  builder.add({.name = "loss", .phase = Phase::backward, .inputs = {"Y"}, .outputs = {{"dY", Bytes{40}}}});
  builder.add({.name = "grad",
               .type = "MatMulGrad",
               .phase = Phase::backward,
               .inputs = {"dY", "B", "A"},
               .outputs = {{"dA", Bytes{100}}, {"dB", Bytes{60}}}});
  builder.add({.name = "end", .phase = Phase::backward, .inputs = {"dA", "dB"}});
  const Graph whole = std::move(builder).build();
  Graph graph = split(whole, "mul", SplitDimension::channel, 2);
  CHECK(inputs_of(graph, "mul/part0") == Names{"A", "mul/split/B:0"});
  graph = split(whole, "mul", SplitDimension::batch, 2);
  CHECK(inputs_of(graph, "mul/part0") == Names{"mul/split/A:0", "mul/split/B:0"});
  graph = split(whole, "grad", SplitDimension::channel, 2);
  CHECK(inputs_of(graph, "grad/part1") == Names{"grad/split/dY:1", "grad/split/B:1", "A"});
  CHECK(output_bytes(graph, "grad/part1") == Sizes{100, 30});
  CHECK(graph.find_op("grad/sum/dA"));
  CHECK(graph.find_op("grad/concat/dB"));
}

TEST_CASE("the gradients of A, B and C in pieces: samples of an activation are concatenated, parameters are summed") {
  GraphBuilder builder;
  builder.add({.name = "a", .outputs = {{"A", Bytes{8 * 6 * 4 * 4}}, {"B", Bytes{8 * 4 * 2 * 4}}}});
  builder.add({.name = "loss", .phase = Phase::backward, .inputs = {"A"}, .outputs = {{"dY", Bytes{8 * 6 * 2 * 4}}}});
  builder.add({.name = "grad_a",
               .type = "MatMulGradA",
               .phase = Phase::backward,
               .signature = "MatMulGradA(float32[8,6,2],float32[8,4,2])->float32[8,6,4]",
               .inputs = {"dY", "B"},
               .outputs = {{"dA", Bytes{8 * 6 * 4 * 4}}}});
  const auto add = [&](const std::string& type, std::vector<std::string> reads, const std::string& shapes,
                       const std::string& made) {
    builder.add({.name = made.substr(1),
                 .type = type,
                 .phase = Phase::backward,
                 .signature = type + shapes,
                 .inputs = std::move(reads),
                 .outputs = {{made, Bytes{256}}}});
  };
  add("MatMulGradB", {"dY", "A"}, "(float32[8,6,2],float32[8,6,4])->float32[8,4,2]", "dB");
  add("MatMulGradB", {"dY", "A"}, "(float32[8,6,2],float32[8,6,4])->float32[8,4,2]", "dParameter");
  add("MatMulGradB", {"dY", "A"}, "(float32[8,6,2],float32[8,6,4])->float32[4,2]", "dShared");
  add("MatMulGradB", {"dY", "A"}, "(float32[8,8],float32[8,8])->float32[8,8]", "dSquare");
  add("GemmGradC", {"dY"}, "(float32[48,2])->float32[48,2]", "dC");
  add("GemmGradC", {"dY"}, "(float32[48,2])->float32[2]", "dBias");
  builder.add({.name = "end", .phase = Phase::backward, .inputs = {"dA", "dB", "dShared", "dSquare", "dC", "dBias"}});
  builder.add({.name = "update", .phase = Phase::update, .inputs = {"dParameter"}});
  const Graph whole = std::move(builder).build();
  const auto collected = [&](const std::string& op, const std::string& tensor, SplitDimension dimension) {
    const Graph graph = split(whole, op, dimension, 2);
    return graph.find_op(op + "/sum/" + tensor) ? "sum" : graph.find_op(op + "/concat/" + tensor) ? "concat" : "";
  };
  const Graph graph = split(whole, "grad_a", SplitDimension::channel, 2);
  CHECK(inputs_of(graph, "grad_a/part1") == Names{"grad_a/split/dY:1", "grad_a/split/B:1"});
  CHECK(collected("grad_a", "dA", SplitDimension::channel) == "sum");
  CHECK(collected("grad_a", "dA", SplitDimension::batch) == "concat");
  CHECK(output_bytes(split(whole, "B", SplitDimension::batch, 2), "B/part0") == Sizes{256 / 2});
  CHECK(output_bytes(split(whole, "Parameter", SplitDimension::batch, 2), "Parameter/part0") == Sizes{256});
  const std::vector<std::pair<std::string, std::string>> along_batch{
      {"B", "concat"}, {"Parameter", "sum"}, {"Shared", "sum"}, {"Square", "sum"}, {"C", "concat"}, {"Bias", "sum"}};
  for (const auto& each : along_batch) {
    const std::string& name = each.first;
    CAPTURE(name);
    CHECK(collected(name, "d" + name, SplitDimension::batch) == each.second);
    CHECK(collected(name, "d" + name, SplitDimension::channel) == "concat");
  }
  CHECK(most_parts(whole, op_named(whole, "grad_a"), SplitDimension::batch) == 8);
  CHECK(most_parts(whole, op_named(whole, "C"), SplitDimension::channel) == 2);
}

TEST_CASE("parameters that an op holds itself are held by every part along the batch, in shares along channels") {
  GraphBuilder builder;
  builder.add({.name = "x", .times = {{"cpu", Nanoseconds{1}}}, .outputs = {{"t", Bytes{8}}}});
  builder.add({.name = "conv",
               .type = "Conv",
               .parameter_bytes = Bytes{60},
               .state_bytes = Bytes{30},
               .workspace_bytes = Bytes{10},
               .times = {{"cpu", Nanoseconds{9}}},
               .inputs = {"t"},
               .outputs = {{"y", Bytes{8}, true}},
               .after = {"x"}});
  builder.add({.name = "end", .times = {{"cpu", Nanoseconds{1}}}, .after = {"conv"}});
  const Graph whole = std::move(builder).build();
  Graph graph = split(whole, "conv", SplitDimension::batch, 2);
  OpId part = op_named(graph, "conv/part0");
  CHECK(graph.parameter_bytes(part) == Bytes{60});
  CHECK(graph.workspace_bytes(part) == Bytes{5});
  CHECK(graph.given_times(part).front().time == Nanoseconds{4});
  CHECK(graph.given_times(op_named(graph, "conv/part1")).front().time == Nanoseconds{5});
  CHECK(graph.given_times(op_named(graph, "conv/split/t")).front().time == Nanoseconds{0});
  CHECK(graph.kept(*graph.outputs(op_named(graph, "conv/concat/y")).begin()));
  CHECK(graph.after(op_named(graph, "end")).size() == 2);
  graph = split(whole, "conv", SplitDimension::channel, 2);
  part = op_named(graph, "conv/part1");
  CHECK(graph.parameter_bytes(part) == Bytes{30});
  CHECK(graph.state_bytes(part) == Bytes{15});
}

TEST_CASE("parts add up to the whole: FLOPs, times, what is read and written in shares") {
  const Graph whole = lenet_replica();
  std::size_t tried = 0;
  for (const OpId op : whole.ops())
    for (const SplitDimension dimension : {SplitDimension::batch, SplitDimension::channel})
      for (const std::size_t parts : {2u, 3u, 5u}) {
        const auto specs = split_op_specs(whole, op, dimension, parts);
        if (specs.empty()) continue;
        ++tried;
        double flops = 0;
        for (const OpSpec& spec : specs) {
          if (spec.type == whole.type(op)) flops += spec.flops.value;
          if (spec.type != kSplitType) continue;
          Bytes sum{0};
          for (const OutputSpec& output : spec.outputs) sum += output.bytes;
          CHECK(spec.bytes_accessed == 2 * sum);
        }
        CHECK(flops == doctest::Approx(whole.flops(op).value));
        CHECK_NOTHROW(split(whole, std::string{whole.name(op)}, dimension, parts));
      }
  CHECK(tried == 60);  // 5 layers x {forward, gradient} x 2 dimensions x 3 numbers of parts
}

TEST_CASE("an op has at most as many parts as its dimension is long, and other ops have none") {
  const Graph graph = training_graph(make_network("lenet:batch=64"));
  CHECK(most_parts(graph, op_named(graph, "conv2/conv"), SplitDimension::batch) == 64);
  CHECK(most_parts(graph, op_named(graph, "conv2/conv"), SplitDimension::channel) == 16);
  CHECK(most_parts(graph, op_named(graph, "conv2/conv/grad"), SplitDimension::channel) == 16);
  CHECK(most_parts(graph, op_named(graph, "fc1/gemm"), SplitDimension::channel) == 120);
  CHECK(most_parts(graph, op_named(graph, "fc1/gemm/grad"), SplitDimension::batch) == 64);
  CHECK(most_parts(graph, op_named(graph, "conv1/relu"), SplitDimension::batch) == 0);
  for (const std::size_t parts : {0U, 1U, 17U})
    CHECK(split_op_specs(graph, op_named(graph, "conv2/conv"), SplitDimension::channel, parts).empty());
}
