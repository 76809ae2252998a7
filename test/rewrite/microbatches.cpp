#include "trainyard/rewrite/microbatches.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/by_name.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/recompute.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::inputs_of;
using test::op_named;

namespace {

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

TEST_CASE("parts that are computed so many at once begin behind the deepest op of those before") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  const auto after = [&](std::size_t at_once, const char* op) {
    const Graph graph = split_batch(whole, 4, at_once).graph;
    Names names;
    for (const OpId earlier : graph.after(op_named(graph, op))) names.emplace_back(graph.name(earlier));
    return names;
  };
  // The first layer's weight gradient comes after every other op that depends on an image.
  CHECK(after(0, "image~2").empty());
  CHECK(after(1, "image~1").empty());
  CHECK(after(1, "image~2") == Names{"conv1/conv/grad~1"});
  CHECK(after(2, "image~2").empty());
  CHECK(after(2, "image~4") == Names{"conv1/conv/grad~1", "conv1/conv/grad~2"});
  CHECK(after(1, "conv1/conv~2").empty());
}

TEST_CASE("what a batch norm keeps of all samples is as large for any number of them") {
  const Graph whole = training_graph(make_network("resnet18:batch=8,image=32"));
  const Graph replicas = data_parallel(whole, {.replicas = 2, .collective = Collective::ring}).graph;
  const auto bytes = [](const Graph& graph, const std::string& name) {
    const OpId op = op_named(graph, name);
    std::vector<std::int64_t> all;
    for (const TensorId tensor : graph.outputs(op)) all.push_back(graph.bytes(tensor).count);
    return all;
  };
  // 64 channels of 16 x 16 numbers for 8 samples, and a mean and a deviation for each channel.
  CHECK(bytes(whole, "stem/batch_norm") == std::vector<std::int64_t>{8 * 4 * 64 * 256, 2 * 4 * 64});
  CHECK(bytes(replicas, "stem/batch_norm@2") == std::vector<std::int64_t>{4 * 4 * 64 * 256, 2 * 4 * 64});
  CHECK(bytes(split_batch(replicas, 4).graph, "stem/batch_norm@2~3") ==
        std::vector<std::int64_t>{4 * 64 * 256, 2 * 4 * 64});
  // A layer norm keeps a mean and a deviation for each row.
  const Graph gpt = training_graph(make_network("gpt2:batch=8,seq=16,layers=1"));
  CHECK(bytes(split_batch(gpt, 4).graph, "h.0/layer_norm~1") ==
        std::vector<std::int64_t>{2 * 4 * 16 * 768, 2 * 4 * 2 * 16});
}

TEST_CASE("a parameter server sends weights once, however many parts a batch has, and they are never divided") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  const Graph graph = split_batch(data_parallel(whole, {.replicas = 2}).graph, 4).graph;
  const OpId weights = op_named(graph, "conv1/conv/weights~1");
  CHECK(!graph.find_op("conv1/conv/weights~2"));
  CHECK(graph.bytes(*graph.outputs(weights).begin()) == whole.parameter_bytes(op_named(whole, "conv1/conv")));
  CHECK(inputs_of(graph, "conv1/conv@2~3") == Names{"image@2~3", "conv1/conv/weights~1"});
}

TEST_CASE("a gather of weights waits for all readers of the previous microbatch, whatever their group") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  const Graph replicas = data_parallel(whole, {.replicas = 2, .collective = Collective::ring, .zero = 3}).graph;
  const Graph graph = split_batch(replicas, 2).graph;
  Names names;
  for (const OpId earlier : graph.after(op_named(graph, "fetch/forward/0/own@1~2")))
    names.emplace_back(graph.name(earlier));
  CHECK(names == Names{"conv1/conv@1~1", "conv2/conv@1~1", "fc1/gemm@1~1", "fc2/gemm@1~1", "fc3/gemm@1~1"});
}

TEST_CASE("a segment that runs again reads the weights that the backward pass gathers, which wait for nothing of it") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  const Graph sharded =
      data_parallel(whole, {.replicas = 2, .collective = Collective::ring, .zero = 3, .bucket = Bytes{1}}).graph;
  std::vector<std::vector<OpId>> segments(1);
  for (const OpId op : sharded.ops())
    if (sharded.phase(op) == Phase::forward && sharded.type(op) != "Input") segments.front().push_back(op);
  const Graph again = recompute(sharded, segments).graph;
  const auto count = [&](std::string_view part) {
    return std::ranges::count_if(again.ops(),
                                 [&](OpId op) { return again.name(op).find(part) != std::string_view::npos; });
  };
  CHECK(count("/weights@1/again") == 0);
  CHECK(count("fetch/forward/0/own@1/again") == 0);
  CHECK(count("/again") > 0);
  CHECK(inputs_of(again, "fc1/gemm@1/again") == Names{"conv2/max_pool.out@1/again", "fetch/backward/2@1"});
  // As without recomputation, fetches for the backward pass wait for the forward op of the second-last or the last
  // weights. A fetch whose readers run after copies waits for what those readers' own weights wait for.
  const auto waits_of = [&](const std::string& name) {
    Names names;
    for (const OpId earlier : again.after(op_named(again, name))) names.emplace_back(again.name(earlier));
    return names;
  };
  for (const int bucket : {0, 2, 4})
    CHECK(waits_of(fmt::format("fetch/backward/{}/own@1", bucket)) == Names{"fc2/gemm@1"});
  for (const int bucket : {1, 3})
    CHECK(waits_of(fmt::format("fetch/backward/{}/own@1", bucket)) == Names{"fc3/gemm@1"});
}

TEST_CASE("one microbatch is the graph itself") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  CHECK(split_batch(whole, 1).graph == whole);
}

TEST_CASE("the scores of attention are what is between its two products, the first of them included") {
  const Graph graph = training_graph(make_network("gpt2:layers=2"));
  const IdMap<OpId, bool> scores = attention_scores(graph);
  std::vector<std::string> names;
  for (const OpId op : graph.ops())
    if (scores[op] && graph.layer(op) == "h.1") names.emplace_back(graph.name(op));
  CHECK(names == std::vector<std::string>{"h.1/matmul", "h.1/div", "h.1/where", "h.1/softmax", "h.1/dropout"});
  const IdMap<OpId, bool> none = attention_scores(training_graph(make_network("resnet50")));
  CHECK(std::find(none.begin(), none.end(), true) == none.end());
}

TEST_CASE("of a segment that runs again the backward pass reads the copies, once the gradient has come") {
  // a -> b -> c -> loss, with b and c in one segment.
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
  // No op reads a copy of c, so only b is copied. The copy reads the checkpoint a.
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
  // If c also runs again, its copy reads that of b. The first backward op that reads the segment waits for it.
  const Graph full =
      recompute(graph, std::vector<std::vector<OpId>>{{OpId{1}}}, std::vector<std::vector<OpId>>{{OpId{2}}}).graph;
  CHECK(full.op_count() == graph.op_count() + 2);
  CHECK(inputs_of(full, "c/again") == Names{"b/again"});
  const auto waits = [&](const char* name) {
    Names names;
    for (const OpId earlier : full.after(op_named(full, name))) names.emplace_back(full.name(earlier));
    return names;
  };
  CHECK(waits("c'") == Names{"c/again"});
  CHECK(waits("b'").empty());
  CHECK(waits("c/again").empty());
  CHECK(inputs_of(full, "c'") == Names{"loss'", "b/again"});
}

namespace {

/// An op that produces an array of eight bytes, named like the op.
struct ChainOp {
  const char* name;
  Phase phase;
  Names inputs;
};
Graph chain(const std::vector<ChainOp>& ops) {
  GraphBuilder builder{"chain"};
  for (const auto& [name, phase, inputs] : ops)
    builder.add({.name = name, .phase = phase, .inputs = inputs, .outputs = {{name, Bytes{8}}}});
  return std::move(builder).build();
}

}  // namespace

TEST_CASE("what a later segment starts from stays, so its backward pass does not wait for an earlier one") {
  // a -> b -> c -> loss. b is one segment and c another. The gradient of c reads b and c, that of b reads a and b.
  const Graph graph = chain({{"a", Phase::forward, {}},
                             {"b", Phase::forward, {"a"}},
                             {"c", Phase::forward, {"b"}},
                             {"loss", Phase::backward, {"c"}},
                             {"c/grad", Phase::backward, {"loss", "b", "c"}},
                             {"b/grad", Phase::backward, {"c/grad", "a", "b"}}});
  const auto op = [&](const char* name) { return op_named(graph, name); };
  const Graph again = recompute(graph, std::vector<std::vector<OpId>>{{op("b")}, {op("c")}}).graph;
  CHECK(inputs_of(again, "c/grad") == Names{"loss", "b", "c/again"});
  CHECK(inputs_of(again, "c/again") == Names{"b"});
  CHECK(inputs_of(again, "b/grad") == Names{"c/grad", "a", "b"});
  CHECK(again.op_count() == graph.op_count() + 1);  // no op needs a copy of b
  // In one segment, both are recomputed.
  const Graph whole = recompute(graph, std::vector<std::vector<OpId>>{{op("b"), op("c")}}).graph;
  CHECK(inputs_of(whole, "c/grad") == Names{"loss", "b/again", "c/again"});
}

TEST_CASE("what a segment hands on to gradients that are not its own stays, though nothing behind it runs again") {
  // a -> b -> c. The gradients of c and of b both read b, so b is kept and only a is recomputed.
  const Graph graph = chain({{"a", Phase::forward, {}},
                             {"b", Phase::forward, {"a"}},
                             {"c", Phase::forward, {"b"}},
                             {"c/grad", Phase::backward, {"c", "b"}},
                             {"b/grad", Phase::backward, {"c/grad", "a", "b"}}});
  const auto op = [&](const char* name) { return op_named(graph, name); };
  std::vector<OpId> segment{op("a"), op("b")};
  leave_results(graph, segment, [&](OpId reader) { return reader == op("b/grad"); });
  CHECK(segment == std::vector<OpId>{op("a")});
  const std::vector<std::vector<OpId>> segments{segment};
  CHECK(inputs_of(recompute(graph, segments).graph, "b/grad") == Names{"c/grad", "a/again", "b"});
  CHECK(repeated_ops(graph, segments).has_copy[op("a")]);
  CHECK(repeated_ops(graph, segments).triggers == std::vector<std::vector<OpId>>{{op("c/grad")}});
}

TEST_CASE("what runs again is of the forward pass, and there once; and a graph has a replica and a microbatch") {
  const Graph graph = chain({{"a", Phase::forward, {}}, {"a/grad", Phase::backward, {"a"}}});
  using Segments = std::vector<std::vector<OpId>>;
  for (const Segments& wrong : {Segments{{OpId{9}}}, Segments{{OpId{1}}}, Segments{{OpId{0}}, {OpId{0}}}}) {
    CHECK_THROWS_AS(recompute(graph, wrong), InputError);
    CHECK_THROWS_AS(repeated_ops(graph, wrong), InputError);
  }
  CHECK_THROWS_AS(data_parallel(graph, {.replicas = 0}), InputError);
  CHECK_THROWS_AS(split_batch(graph, 0), InputError);
}
