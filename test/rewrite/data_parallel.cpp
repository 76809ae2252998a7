#include "trainyard/rewrite/data_parallel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/by_name.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/rewrite/op_spec.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::inputs_of;
using test::op_named;

namespace {

Graph lenet_step() { return training_graph(make_network("lenet:batch=64")); }

std::int64_t count(const Graph& graph, const std::string& type) {
  const auto ops = graph.ops();
  return std::count_if(ops.begin(), ops.end(), [&](OpId op) { return graph.type(op) == type; });
}

}  // namespace

TEST_CASE("two replicas of a layer read one variable, and its update reads the sum of their gradients") {
  const DataParallelGraph parallel = data_parallel(lenet_step(), {.replicas = 2});
  const Graph& graph = parallel.graph;
  using Names = std::vector<std::string>;
  CHECK(inputs_of(graph, "conv1/conv@2") == Names{"image@2", "conv1/conv/weights"});
  CHECK(inputs_of(graph, "conv2/conv/grad@1") ==
        Names{"conv2/conv.out.grad@1", "conv1/max_pool.out@1", "conv2/conv/weights"});
  CHECK(inputs_of(graph, "conv1/conv.weight.grad/aggregate") ==
        Names{"conv1/conv.weight.grad@1", "conv1/conv.weight.grad@2"});
  CHECK(inputs_of(graph, "conv1/conv.weight/update") == Names{"conv1/conv.weight.grad/aggregate"});
  CHECK(parallel.replica[op_named(graph, "conv1/conv@2")] == 1);
  CHECK(parallel.replica[op_named(graph, "conv1/conv/weights")] == 2);
  // Ops that share parameters stay colocated; the replicas may be placed freely.
  for (const char* op : {"conv1/conv/weights", "conv1/conv.weight.grad/aggregate", "conv1/conv.weight/update"})
    CHECK(graph.colocation_group(op_named(graph, op)) == "conv1/conv.weight");
  CHECK(graph.colocation_group(op_named(graph, "conv1/conv@1")).empty());
}

TEST_CASE("a replica has its share of the batch, but all of the weights and of their gradients") {
  const Graph whole = lenet_step();
  const Graph graph = data_parallel(whole, {.replicas = 4}).graph;
  const OpId conv = op_named(graph, "conv1/conv@1"), gradient = op_named(graph, "conv2/conv/grad@1");
  CHECK(graph.flops(conv).value == 15353856.0 / 4);
  CHECK(graph.bytes(*graph.outputs(conv).begin()) == Bytes{1204224 / 4});
  // All 624 bytes of weights and bias are read: 624 + (1405552 - 624) / 4.
  CHECK(graph.bytes_accessed(conv) == Bytes{351856});
  CHECK(graph.parameter_bytes(conv) == Bytes{0});
  const auto outputs = graph.outputs(gradient);
  CHECK(graph.bytes(*outputs.begin()) == Bytes{301056 / 4});  // gradient of the data
  CHECK(graph.bytes(*++outputs.begin()) == Bytes{9600});      // gradient of the weights
  const OpId variable = op_named(graph, "conv1/conv/weights");
  CHECK(graph.parameter_bytes(variable) == Bytes{624});
  CHECK(graph.state_bytes(variable) == Bytes{0});
  // Sum of 4 arrays of 600 bytes: 4 read, 1 written; 3 additions of 150 numbers.
  const OpId sum = op_named(graph, "conv1/conv.weight.grad/aggregate");
  CHECK(graph.bytes_accessed(sum) == Bytes{3000});
  CHECK(graph.flops(sum).value == 450);
  CHECK(graph.bytes_accessed(op_named(graph, "conv1/conv.weight/update")) ==
        whole.bytes_accessed(op_named(whole, "conv1/conv.weight/update")));
}

TEST_CASE("a replica reads of a table what a step of its samples reads") {
  const auto step = [](const std::string& batch) {
    return training_graph(make_network("llama2_7b:layers=1,seq=8,hidden=16,heads=2,kv_heads=2,batch=" + batch));
  };
  const Graph own = step("2"), replicas = data_parallel(step("4"), {.replicas = 2}).graph;
  std::size_t compared = 0;
  for (const OpId op : own.ops()) {
    if (own.type(op) != "Gather" && own.type(op) != "EmbeddingGrad") continue;
    ++compared;
    // 2 x 8 indices of 8 bytes, and 2 x 8 rows of 64 bytes, read and written.
    if (own.type(op) == "Gather") CHECK(own.bytes_accessed(op) == Bytes{128 + 2 * 1024});
    CHECK(replicas.bytes_accessed(op_named(replicas, std::string{own.name(op)} + "@2")) == own.bytes_accessed(op));
  }
  CHECK(compared == 2);
}

TEST_CASE("a replica makes and reads the whole of a bias that all samples have, and of its gradient") {
  const auto step = [](const std::string& batch) {
    return training_graph(make_network("t5_small:layers=2,seq=6,targets=5,batch=" + batch));
  };
  // The encoder's bias also has as many rows, 6, as there are samples.
  for (const auto& each : {std::pair{"2", "4"}, std::pair{"3", "6"}}) {
    const char *const batch = each.first, *const of_two = each.second;
    CAPTURE(batch);
    const Graph own = step(batch), whole = step(of_two);
    const Graph replicas = data_parallel(whole, {.replicas = 2, .collective = Collective::whole}).graph;
    const Graph microbatches = split_batch(whole, 2).graph;
    std::map<std::string, std::size_t> biases;
    for (const OpId op : own.ops()) {
      const std::string& type = own.type(op);
      if (own.phase(op) == Phase::update) continue;
      if (type != "Gather" && type != "Add" && type != "SumToShape" && type != "AddGrad" && type != "EmbeddingGrad")
        continue;
      for (const auto& [graph, mark] : {std::pair{&replicas, "@2"}, std::pair{&microbatches, "~2"}}) {
        const OpId same = op_named(*graph, std::string{own.name(op)} + mark);
        CHECK(graph->bytes_accessed(same) == own.bytes_accessed(op));
        CHECK(graph->flops(same).value == own.flops(op).value);
        CHECK(graph->bytes(*graph->outputs(same).begin()) == own.bytes(*own.outputs(op).begin()));
      }
      // The position biases, 8 heads x 6 x 6 numbers in the encoder and 8 x 5 x 5 in the decoder, do not depend on the
      // batch.
      const std::int64_t made = own.bytes(*own.outputs(op).begin()).count;
      if (made == 4 * 8 * 36 || made == 4 * 8 * 25) ++biases[type];
    }
    // Two layers read each bias, and their gradients are summed.
    CHECK(biases == std::map<std::string, std::size_t>{{"AddGrad", 2}, {"Gather", 2}, {"SumToShape", 4}});
  }
}

TEST_CASE("positions of all samples are whole in each replica, but for the rows of a sequence that others have") {
  // Positions: 8 indices of 8 bytes and 8 rows of 16 numbers, one sample's whatever the batch.
  const Graph whole = training_graph(make_network("gpt2:batch=4,layers=1,hidden=16,heads=2,seq=8,positions=8,fused=1"));
  const auto made = [](const Graph& graph, const std::string& op) {
    return graph.bytes(*graph.outputs(op_named(graph, op)).begin()).count;
  };
  for (const std::size_t context : {1u, 2u}) {
    CAPTURE(context);
    const Graph graph =
        data_parallel(whole, {.replicas = 4, .collective = Collective::whole, .context = context}).graph;
    const auto share = 1 / static_cast<double>(context);
    CHECK(made(graph, "positions@3") * static_cast<std::int64_t>(context) == 64);
    CHECK(made(graph, "embedding/gather@3") * static_cast<std::int64_t>(context) == 512);
    CHECK(made(graph, "embedding/add/grad@3") * static_cast<std::int64_t>(context) == 512);
    CHECK(made(graph, "embedding/gather_2@3") == 512);  // 4 x 8 words, divided among 4
    // The op reads dY of its share of the words and writes their sum.
    CHECK(graph.bytes_accessed(op_named(graph, "embedding/add/grad@3")).count == 512 + 512 / static_cast<int>(context));
    for (const char* op : {"embedding/gather", "embedding/gather/grad"})
      CHECK(graph.flops(op_named(graph, std::string{op} + "@3")).value ==
            share * whole.flops(op_named(whole, op)).value);
    CHECK(graph.signature(op_named(graph, "embedding/gather@3")) ==
          (context > 1 ? "0.5 of " : "") + std::string{"Gather(float32[8,16],int64[1,8])->float32[1,8,16]"});
  }
  // With a batch of one, parts are fractions of a sample, and positions are divided as words are.
  const Graph one = training_graph(make_network("gpt2:batch=1,layers=1,hidden=16,heads=2,seq=8,positions=8"));
  CHECK(made(data_parallel(one, {.replicas = 2}).graph, "positions@1") == 32);
}

TEST_CASE("replicas add up to the whole: FLOPs, activations, parameters; whole replicas are copies") {
  const Graph whole = lenet_step();
  for (const std::size_t n : {1u, 3u, 8u}) {
    CAPTURE(n);
    const Graph graph = data_parallel(whole, {.replicas = n}).graph;
    double flops = 0, expected = 0;
    Bytes parameters{0}, expected_parameters{0};
    for (const OpId op : graph.ops())
      if (graph.phase(op) != Phase::update) flops += graph.flops(op).value;
    for (const OpId op : whole.ops()) {
      if (whole.phase(op) != Phase::update) expected += whole.flops(op).value;
      expected_parameters += whole.parameter_bytes(op);
    }
    for (const OpId op : graph.ops()) parameters += graph.parameter_bytes(op);
    CHECK(flops == doctest::Approx(expected));
    CHECK(parameters == expected_parameters);
    CHECK(count(graph, kVariableType) == 5);
    CHECK(count(graph, kAggregateType) == (n == 1 ? 0 : 10));  // 5 weights and 5 biases
    Bytes images{0};
    for (std::size_t r = 1; r <= n; ++r)
      images += graph.bytes(*graph.outputs(op_named(graph, "image@" + std::to_string(r))).begin());
    CHECK(images == Bytes{200704});
  }
  const Graph copies = data_parallel(whole, {.replicas = 3}, false).graph;
  CHECK(copies.flops(op_named(copies, "conv1/conv@3")).value == 15353856.0);
  CHECK(copies.bytes_accessed(op_named(copies, "conv1/conv@3")) == Bytes{1405552});
}

TEST_CASE("times that the graph gives are divided too, and what holds parameters takes no time on any of its devices") {
  GraphBuilder builder;
  builder.add(
      {.name = "a", .parameter_bytes = Bytes{8}, .times = {{"x", Nanoseconds{7}}}, .outputs = {{"t", Bytes{21}}}});
  builder.add({.name = "b", .times = {{"x", Nanoseconds{4}}}, .inputs = {"t"}, .after = {"a"}});
  const Graph graph = data_parallel(std::move(builder).build(), {.replicas = 2}).graph;
  CHECK(graph.given_times(op_named(graph, "a@1")).front().time == Nanoseconds{3});
  CHECK(graph.given_times(op_named(graph, "a@2")).front().time == Nanoseconds{4});
  CHECK(graph.given_times(op_named(graph, "a/weights")).back() == GivenTime{"x", Nanoseconds{0}});
  CHECK(graph.name(graph.after(op_named(graph, "b@2")).front()) == "a@2");
}

TEST_CASE("tied weights: who reads which variable is told by layer, else all of the group") {
  GraphBuilder builder;
  const auto add = [&](const char* name, const char* layer, std::int64_t parameters, Phase phase) {
    builder.add({.name = name,
                 .phase = phase,
                 .layer = layer,
                 .colocate = "g",
                 .flops = Flops{1},
                 .parameter_bytes = Bytes{parameters}});
  };
  add("in", "first", 100, Phase::forward);
  add("out", "last", 200, Phase::forward);
  add("out/grad", "last", 0, Phase::backward);
  add("other", "", 0, Phase::backward);
  const Graph graph = data_parallel(std::move(builder).build(), {.replicas = 1}).graph;
  CHECK(inputs_of(graph, "out/grad@1") == std::vector<std::string>{"out/weights"});
  CHECK(inputs_of(graph, "other@1") == std::vector<std::string>{"in/weights", "out/weights"});
}

TEST_CASE("gradients are told in one pass where sums meet again and again, and each alone as quickly") {
  // 64 times, two relays read a sum and the next sum reads both relays: 2^64 paths to the update.
  GraphBuilder builder;
  builder.add({.name = "g", .phase = Phase::backward, .outputs = {{"s0", Bytes{4}}, {"x", Bytes{4}}}});
  for (int i = 0; i < 64; ++i) {
    const std::string n = std::to_string(i), next = "s" + std::to_string(i + 1);
    for (const char* side : {"l", "r"})
      builder.add({.name = side + n, .type = "Relay", .inputs = {"s" + n}, .outputs = {{side + n, Bytes{4}}}});
    builder.add({.name = next, .type = "AddGrad", .inputs = {"l" + n, "r" + n}, .outputs = {{next, Bytes{4}}}});
  }
  builder.add({.name = "u", .phase = Phase::update, .inputs = {"s64"}});
  builder.add({.name = "other", .inputs = {"x"}});
  const Graph graph = std::move(builder).build();
  const IdMap<TensorId, bool> gradients = parameter_gradients(graph);
  for (const TensorId tensor : graph.tensors()) {
    CHECK(gradients[tensor] == (graph.name(tensor) != "x"));
    CHECK(is_parameter_gradient(graph, tensor) == gradients[tensor]);
  }
}
