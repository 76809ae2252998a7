#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/by_name.hpp"
#include "simulate/small_instance.hpp"
#include "support/refusal.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::collectives;
using test::inputs_of;
using test::op_named;

namespace {

/// A sample has 16 rows. Queries and results have 4 heads of 4 numbers, 1024 bytes in all; keys and values have 2
/// heads, 512 bytes each.
Graph llama(const std::string& more = "") {
  return training_graph(make_network("llama3_8b:batch=2,seq=16,layers=2,hidden=16,heads=4,kv_heads=2,inner=24,"
                                     "vocabulary=32,fused=1" +
                                     more),
                        {.optimizer = Optimizer::adam});
}

Graph shared(const Graph& graph, std::size_t replicas, std::size_t context, ContextExchange exchange,
             Collective collective = Collective::whole, std::size_t zero = 0) {
  return data_parallel(
             graph,
             {.replicas = replicas, .collective = collective, .zero = zero, .context = context, .exchange = exchange})
      .graph;
}

std::int64_t parameters(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const OpId op : graph.ops()) bytes += graph.parameter_bytes(op).count;
  return bytes;
}

std::string code(const Graph& graph, const Replicate& how) {
  return test::refusal_of([&] { data_parallel(graph, how); });
}

constexpr ContextExchange kExchanges[] = {ContextExchange::all_gather, ContextExchange::all_to_all};

}  // namespace

TEST_CASE("a layer gathers keys and values twice, and scatters their gradients once") {
  // Two ranks, each with 8 rows of both samples. Together they gather 2 x 512 bytes of keys and as many of values.
  const Graph whole = llama();
  const Graph two = shared(whole, 2, 2, ContextExchange::all_gather);
  CHECK(collectives(two) ==
        std::map<std::string, int>{{"all-gather 1024 of 2", 2 * 4},
                                   {"reduce-scatter 1024 of 2", 2 * 2},
                                   {"all-reduce " + std::to_string(parameters(whole)) + " of 2", 1}});
  CHECK(inputs_of(two, "layers.0/attention@2") ==
        std::vector<std::string>{"layers.0/add.out@2", "layers.0/add_2.out/all@2", "layers.0/linear_3.out/all@2"});
  const std::vector<std::string> backward = inputs_of(two, "layers.0/attention/grad@1");
  CHECK(backward[1] == "layers.0/add.out@1");
  CHECK(backward[2] == "layers.0/add_2.out/all#2@1");
  CHECK(backward[3] == "layers.0/linear_3.out/all#2@1");
  // For the backward pass, keys are gathered again when the gradient of the result is ready.
  const OpId wait = op_named(two, "layers.0/add_2.out/all-gather#2/0/wait@1");
  REQUIRE(two.after(wait).size() == 1);
  CHECK(two.name(two.after(wait)[0]) == "layers.0/linear_4/grad@1");

  // Collectives of one rank of four: a pair of ranks shares one sample.
  CHECK(collectives(shared(whole, 4, 2, ContextExchange::all_gather)) ==
        std::map<std::string, int>{{"all-gather 512 of 2", 2 * 2 * 4},
                                   {"reduce-scatter 512 of 2", 2 * 2 * 2},
                                   {"all-reduce " + std::to_string(parameters(whole)) + " of 4", 1}});
}

TEST_CASE("by all-to-alls a layer exchanges queries, keys, values and the result, and the gradients of these") {
  const Graph two = shared(llama(), 2, 2, ContextExchange::all_to_all);
  const auto counts = collectives(two);
  CHECK(counts.at("all-to-all 1024 of 2") == 2 * 4);  // half of 2 x 1024 bytes, for queries, result and their gradients
  CHECK(counts.at("all-to-all 512 of 2") == 2 * 4);
  CHECK(inputs_of(two, "layers.1/attention@1") == std::vector<std::string>{"layers.1/add.out/heads@1",
                                                                           "layers.1/add_2.out/heads@1",
                                                                           "layers.1/linear_3.out/heads@1"});
  CHECK(inputs_of(two, "layers.1/linear_4@1") == std::vector<std::string>{"layers.1/attention.out@1"});
  CHECK(inputs_of(two, "layers.1/attention/grad@2") ==
        std::vector<std::string>{"layers.1/reshape_8.out.grad/heads@2", "layers.1/add.out/heads@2",
                                 "layers.1/add_2.out/heads@2", "layers.1/linear_3.out/heads@2",
                                 "layers.1/attention.out/heads@2", "layers.1/attention.out.logsumexp@2"});
}

TEST_CASE("in a ring keys and values shift beside the steps of attention, their gradients home") {
  // Three ranks share a sample of 24 rows, 8 each: 256 bytes of keys and 256 of values.
  const Graph whole =
      training_graph(make_network("llama3_8b:batch=1,seq=24,layers=1,hidden=16,heads=4,kv_heads=2,"
                                  "inner=24,vocabulary=32,fused=1"));
  const Graph three = shared(whole, 3, 3, ContextExchange::ring);
  // Keys and values shift twice in each pass, and their gradients three times.
  CHECK(collectives(three).at("shift 256 of 3") == 2 * 2 + 2 * 2 + 2 * 3);
  const std::string attention = "layers.0/attention", keys = "layers.0/add_2.out", values = "layers.0/linear_3.out";
  CHECK(inputs_of(three, attention + "/step/0@2") ==
        std::vector<std::string>{"layers.0/add.out@2", keys + "@2", values + "@2"});
  CHECK(inputs_of(three, attention + "@2") ==
        std::vector<std::string>{"layers.0/add.out@2", attention + "/" + keys + "/2@2",
                                 attention + "/" + values + "/2@2", attention + ".out/step/1@2",
                                 attention + ".out.logsumexp/step/1@2"});
  // The second shift starts when the first step has ended, which releases that step's keys.
  const OpId wait = op_named(three, attention + "/" + keys + "/2/shift/0/wait@1");
  REQUIRE(three.after(wait).size() == 1);
  CHECK(three.name(three.after(wait)[0]) == attention + "/step/0@1");
  const OpId first = op_named(three, attention + "/grad/" + keys + "/1/shift/0/wait@1");
  REQUIRE(three.after(first).size() == 1);
  CHECK(three.name(three.after(first)[0]) == "layers.0/linear_4/grad@1");
  // Each step does a ninth of the work of its pass.
  for (const std::string& op : {attention, attention + "/grad"})
    for (const std::string& step : {op + "/step/0", op + "/step/1", op})
      CHECK(three.flops(op_named(three, step + "@3")).value ==
            doctest::Approx(whole.flops(op_named(whole, op)).value / 9));
  // With sends in place of collectives, each rank reads the keys of its predecessor.
  const Graph sends = shared(whole, 3, 3, ContextExchange::ring, Collective::ring);
  CHECK(inputs_of(sends, attention + "/" + keys + "/1/shift/0/joined@2") == std::vector<std::string>{keys + "@1"});
  CHECK(inputs_of(sends, attention + "/" + keys + "/1/shift/0/joined@1") == std::vector<std::string>{keys + "@3"});
}

TEST_CASE("a ring takes the longer of steps and shifts, where a gather takes both") {
  // A link moves a byte a nanosecond. Each of two ranks has 100 bytes of keys, 100 of values, and half of the
  // attention.
  const auto step_of = [](ContextExchange exchange, std::int64_t attention) {
    GraphBuilder builder{"attention"};
    const auto made = [&](const char* name, std::int64_t bytes) {
      builder.add({.name = name, .times = {{"gpu", Nanoseconds{0}}}, .outputs = {{name, Bytes{bytes}}}});
    };
    made("queries", 400);
    made("keys", 200);
    made("values", 200);
    builder.add({.name = "attention",
                 .type = "Attention",
                 .times = {{"gpu", Nanoseconds{attention}}},
                 .inputs = {"queries", "keys", "values"},
                 .outputs = {{"result", Bytes{400}}}});
    const Problem problem{shared(std::move(builder).build(), 2, 2, exchange), make_cluster(test::linked(2))};
    Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0})};
    for (const OpId op : problem.ops())
      if (problem.graph().name(op).ends_with("@2")) schedule.placement[op] = DeviceId{1};
    return simulate(problem, schedule).makespan.count;
  };
  // Ring: two steps of 400, with shifts of 100 + 100 during the first. Gather: 100 + 100, then 800.
  CHECK(step_of(ContextExchange::ring, 1600) == 400 + 400);
  CHECK(step_of(ContextExchange::all_gather, 1600) == 200 + 800);
  // Steps of 40: the second waits for the shifts.
  CHECK(step_of(ContextExchange::ring, 160) == 200 + 40);
  CHECK(step_of(ContextExchange::all_gather, 160) == 200 + 80);
}

TEST_CASE("each rank has its share of all work and tensors but of gathered keys and values, and all weights") {
  const Graph whole = llama();
  for (const ContextExchange exchange : kExchanges)
    for (const std::pair<int, int>& degrees : {std::pair{2, 2}, std::pair{4, 2}, std::pair{2, 1}}) {
      const int replicas = degrees.first, context = degrees.second;
      CAPTURE(name_of(exchange));
      CAPTURE(replicas);
      CAPTURE(context);
      const auto n = static_cast<std::size_t>(replicas);
      const Graph ranks = shared(whole, n, static_cast<std::size_t>(context), exchange);
      for (const OpId op : whole.ops()) {
        const std::string name{whole.name(op)};
        CAPTURE(name);
        if (whole.phase(op) == Phase::update) continue;
        const OpId own = op_named(ranks, name + "@2");
        CHECK(ranks.flops(own).value == doctest::Approx(whole.flops(op).value / replicas));
        CHECK(ranks.parameter_bytes(own) == whole.parameter_bytes(op));
        CHECK(ranks.state_bytes(own) == whole.state_bytes(op));
      }
      const auto bytes = [&](const char* tensor) {
        for (const TensorId id : ranks.tensors())
          if (ranks.name(id) == tensor) return ranks.bytes(id).count;
        return std::int64_t{-1};
      };
      CHECK(bytes("layers.0/add_2.out@1") == 2 * 512 / replicas);
      CHECK(bytes("layers.0/attention.out.logsumexp@1") == 2 * 16 * 4 * 4 / replicas);
      if (context == 1) continue;
      const bool gathers = exchange == ContextExchange::all_gather;
      CHECK(bytes(gathers ? "layers.0/add_2.out/all@1" : "layers.0/add_2.out/heads@1") ==
            2 * 512 / replicas * (gathers ? context : 1));
    }
  // Traffic of one rank: half of queries, result and log-sum-exps (2 x 16 x 4 x 4 bytes in all), but all keys and
  // values.
  const Graph two = shared(whole, 2, 2, ContextExchange::all_gather);
  const OpId op = op_named(whole, "layers.0/attention"), own = op_named(two, "layers.0/attention@1");
  CHECK(two.bytes_accessed(own) == Bytes{(whole.bytes_accessed(op).count + 2 * 2 * 512) / 2});
}

TEST_CASE("gradients and the optimizer's state are those of as many replicas") {
  const Graph whole = llama();
  for (const ContextExchange exchange : kExchanges) {
    const Graph ranks = shared(whole, 4, 2, exchange, Collective::whole, 1);
    std::int64_t state = 0, expected = 0;
    for (const OpId op : ranks.ops())
      if (ranks.name(op).ends_with("@1")) state += ranks.state_bytes(op).count;
    for (const OpId op : whole.ops()) expected += whole.state_bytes(op).count;
    CHECK(state == expected / 4);
    CHECK(collectives(ranks).at("reduce-scatter " + std::to_string(parameters(whole)) + " of 4") == 1);
  }
}

TEST_CASE("as sends, each rank passes on keys and values, and keeps its part of an all-to-all") {
  const Graph gathers = shared(llama(), 2, 2, ContextExchange::all_gather, Collective::ring);
  CHECK(inputs_of(gathers, "layers.0/attention@1")[1] == "layers.0/add_2.out/all@1");
  const OpId joined = op_named(gathers, "layers.0/add_2.out/all-gather/0/joined@1");
  std::int64_t bytes = 0;
  for (const TensorId part : gathers.inputs(joined)) bytes += gathers.bytes(part).count;
  CHECK(bytes == 1024);
  const Graph exchanges = shared(llama(), 2, 2, ContextExchange::all_to_all, Collective::ring);
  CHECK(inputs_of(exchanges, "layers.0/add.out/all-to-all/0/joined@2") ==
        std::vector<std::string>{"layers.0/add.out/all-to-all/0/parts@1:1", "layers.0/add.out/all-to-all/0/parts@2:1"});
}

TEST_CASE("tensor ranks have their heads of what ranks of the sequence exchange") {
  const Graph ranks = tensor_parallel(llama(), {.ranks = 2, .collective = Collective::whole, .sequence = true}).graph;
  const auto counts = collectives(shared(ranks, 2, 2, ContextExchange::all_gather));
  CHECK(counts.at("all-gather 512 of 2") == 2 * 2 * 4);  // on each rank, with half of the heads
  CHECK(counts.at("reduce-scatter 512 of 2") == 2 * 2 * 2);
}

TEST_CASE("one replica of a fold stands for those that share its sequence") {
  const Graph folded =
      data_parallel(llama(), {.replicas = 4, .collective = Collective::whole, .fold = 2, .classes = {4}, .context = 2})
          .graph;
  const CollectiveTask* gather = folded.collective(op_named(folded, "layers.0/add_2.out/all-gather/0/collective@1"));
  REQUIRE(gather);
  CHECK(*gather == CollectiveTask{CollectiveKind::all_gather, Bytes{512}, 2, 2});
}

TEST_CASE("a sequence is not shared where ops look at several rows, or ranks do not divide the heads") {
  const Graph graph = llama();
  const auto by = [](std::size_t replicas, std::size_t context, ContextExchange exchange) {
    return Replicate{.replicas = replicas, .collective = Collective::ring, .context = context, .exchange = exchange};
  };
  CHECK(code(graph, by(4, 3, ContextExchange::all_gather)) ==
        "context: 4 replicas cannot be divided into groups of 3 that share a sequence");
  CHECK(code(graph, by(4, 4, ContextExchange::all_gather)) == "");
  CHECK(code(graph, by(4, 4, ContextExchange::all_to_all)) ==
        "context: the 2 heads of keys and values of 'layers.0/attention' cannot be divided equally among 4 ranks");
  CHECK(code(graph, {.replicas = 2, .context = 2}) ==
        "context: with a parameter server, replicas cannot share a sequence");
  const auto refusal = [&](const char* network) {
    return code(training_graph(make_network(network)), by(2, 2, ContextExchange::all_gather));
  };
  CHECK(refusal("lenet:batch=2") ==
        "context: 'conv1/conv' (Conv) combines several rows of the sequence that is to be divided among 2 ranks");
  CHECK(
      refusal("gpt2:batch=2,seq=16,layers=1,hidden=16,heads=2").starts_with("context: 'h.0/matmul' (MatMul) combines"));
  CHECK(refusal("gpt2:batch=2,seq=16,layers=1,hidden=16,heads=2,fused=1") == "");
  CHECK(refusal("bert_base:batch=2,seq=16,layers=1,hidden=16,heads=2,fused=1") == "");
  CHECK(refusal("t5_small:batch=2,seq=16,targets=16,layers=1,fused=1").starts_with("context: "));
  CHECK(code(training_graph(make_network("mixtral_8x7b:batch=2,seq=8,layers=1,hidden=16,heads=2,kv_heads=1,inner=24,"
                                         "vocabulary=32,experts=4,fused=1")),
             {.replicas = 4, .collective = Collective::ring, .experts = 2, .context = 2}) ==
        "context: replicas that share a sequence and hold different experts are not modelled");
}
