#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/by_name.hpp"
#include "support/refusal.hpp"
#include "trainyard/cluster/device_kinds.hpp"
#include "trainyard/cost/kernel_costs.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/rewrite/tensor_parallel.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::collectives;
using test::inputs_of;
using test::op_named;

namespace {

/// Two layers with 8 experts of 16 x 24. A sample has 8 tokens, of which an expert takes 8 x 2 / 8 = 2.
Graph mixture(std::int64_t batch, std::int64_t experts = 8, std::int64_t capacity = 100) {
  return training_graph(make_network("mixtral_8x7b:seq=8,layers=2,hidden=16,heads=2,kv_heads=1,inner=24,vocabulary=32,"
                                     "batch=" +
                                     std::to_string(batch) + ",experts=" + std::to_string(experts) +
                                     ",capacity=" + std::to_string(capacity)),
                        {.optimizer = Optimizer::adam});
}

Graph spread(const Graph& graph, std::size_t replicas, std::size_t experts, Collective collective = Collective::whole,
             std::size_t zero = 0) {
  return data_parallel(graph, {.replicas = replicas, .collective = collective, .zero = zero, .experts = experts}).graph;
}

/// Whether an op is between dispatch and combine, with all its arrays of 8 experts and at least 8 rows.
bool is_of_experts(const Graph& graph, OpId op) {
  const std::string name{graph.name(op)};
  for (const char* part : {"/swish", "/mul", "/dispatch.out/add_grad"})
    if (name.find(part) != std::string::npos) return graph.signature(op).find("[8,8,") != std::string::npos;
  return name.find("/experts") != std::string::npos;
}

void check_same(const Graph& rank, OpId op, const Graph& alone, OpId same, bool signature) {
  CHECK(rank.flops(op).value == doctest::Approx(alone.flops(same).value));
  CHECK(rank.bytes_accessed(op) == alone.bytes_accessed(same));
  CHECK(rank.parameter_bytes(op) == alone.parameter_bytes(same));
  CHECK(rank.state_bytes(op) == alone.state_bytes(same));
  if (signature) CHECK(rank.signature(op) == alone.signature(same));
  const auto outputs = rank.outputs(op), expected = alone.outputs(same);
  REQUIRE(outputs.size() == expected.size());
  auto at = expected.begin();
  for (const TensorId tensor : outputs) CHECK(rank.bytes(tensor) == alone.bytes(*at++));
}

}  // namespace

TEST_CASE("a rank's experts cost what a step of these experts alone costs, and all else what it does without") {
  for (const std::pair<int, int>& degrees : {std::pair{2, 2}, std::pair{4, 4}, std::pair{4, 2}}) {
    const int replicas = degrees.first, experts = degrees.second;
    CAPTURE(replicas);
    CAPTURE(experts);
    const auto n = static_cast<std::size_t>(replicas), e = static_cast<std::size_t>(experts);
    const Graph whole = mixture(4), ranks = spread(whole, n, e);
    // A step of 8 / e experts on the tokens of e ranks, each with 4 / n samples, at an equal capacity for each expert.
    const Graph of_experts = mixture(4 * experts / replicas, 8 / experts, 100 / experts);
    const Graph alike = spread(whole, n, 1);
    std::size_t inside = 0, outside = 0;
    for (const OpId op : whole.ops()) {
      const std::string name{whole.name(op)};
      CAPTURE(name);
      const OpId last = op_named(ranks, name + "@" + std::to_string(replicas));
      if (is_of_experts(whole, op)) {
        check_same(ranks, last, of_experts, op_named(of_experts, name), n == e);
        ++inside;
      } else {
        check_same(ranks, last, alike, op_named(alike, std::string{ranks.name(last)}), true);
        ++outside;
      }
    }
    // A layer has 3 products, swish and mul, their gradients, 3 updates, and the sum of two products' gradients.
    CHECK(inside == 2 * (5 + 5 + 1 + 3));
    CHECK(outside > 100);
  }
}

TEST_CASE("a replica or microbatch takes for its experts what a step of its samples takes, op by op") {
  const Device device = make_device(*find_device_kind("V100"), "gpu0");
  const Graph whole = mixture(4), own = mixture(2);
  const Graph replicas = spread(whole, 2, 1), parts = split_batch(whole, 2).graph;
  std::size_t compared = 0;
  for (const OpId op : own.ops()) {
    const std::string name{own.name(op)};
    if (name.find("/experts") == std::string::npos || own.phase(op) == Phase::update) continue;
    CAPTURE(name);
    const double expected = kernel_time(own, op, device, {})->seconds;
    CHECK(kernel_time(replicas, op_named(replicas, name + "@2"), device, {})->seconds == doctest::Approx(expected));
    CHECK(kernel_time(parts, op_named(parts, name + "~2"), device, {})->seconds == doctest::Approx(expected));
    ++compared;
  }
  CHECK(compared == 2 * (3 + 3));  // 3 products a layer and their gradients
}

TEST_CASE("a mixture has two all-to-alls in each pass, and its experts' gradients stay where they are") {
  // 8 experts x 2 rows of 2 samples x 16 numbers: 2048 bytes on each of two ranks.
  const Graph whole = mixture(4), two = spread(whole, 2, 2);
  std::int64_t shared = 0, of_experts = 0;
  for (const OpId op : whole.ops())
    (std::string{whole.name(op)}.find("/experts") == std::string::npos ? shared : of_experts) +=
        whole.parameter_bytes(op).count;
  CHECK(of_experts == 2 * 8 * 3 * 16 * 24 * 4);
  CHECK(collectives(two) == std::map<std::string, int>{{"all-to-all 2048 of 2", 2 * 4},
                                                       {"all-reduce " + std::to_string(shared) + " of 2", 1}});
  CHECK(inputs_of(two, "layers.0/experts@2") == std::vector<std::string>{"layers.0/dispatch.out/exchanged@2"});
  CHECK(inputs_of(two, "layers.0/combine@2").front() == "layers.0/experts_3.out/exchanged@2");

  // Four ranks in pairs: each expert is on two ranks, 0 and 2 or 1 and 3.
  const Graph pairs = spread(whole, 4, 2);
  CHECK(collectives(pairs) ==
        std::map<std::string, int>{{"all-to-all 1024 of 2", 2 * 2 * 4},
                                   {"all-reduce " + std::to_string(shared) + " of 4", 1},
                                   {"all-reduce " + std::to_string(of_experts / 2) + " of 2", 2}});
  CHECK(inputs_of(pairs, "layers.1/experts.weight/update@4") ==
        std::vector<std::string>{"layers.1/experts.weight.grad/sum@4"});
  for (const Graph* graph : {&two, &pairs}) {
    std::int64_t held = 0;
    for (const OpId op : graph->ops())
      if (graph->name(op).ends_with("@2")) held += graph->parameter_bytes(op).count;
    CHECK(held == shared + of_experts / 2);
  }
}

TEST_CASE("with ZeRO 1, two replicas divide the state of the experts that they hold, and all four that of the rest") {
  const Graph whole = mixture(4);
  std::int64_t shared = 0, of_experts = 0;
  for (const OpId op : whole.ops())
    (std::string{whole.name(op)}.find("/experts") == std::string::npos ? shared : of_experts) +=
        whole.parameter_bytes(op).count;
  const std::string of_four = std::to_string(shared) + " of 4", of_two = std::to_string(of_experts / 2) + " of 2";
  const Graph pairs = spread(whole, 4, 2, Collective::whole, 1);
  CHECK(collectives(pairs) == std::map<std::string, int>{{"all-to-all 1024 of 2", 2 * 2 * 4},
                                                         {"reduce-scatter " + of_four, 1},
                                                         {"all-gather " + of_four, 1},
                                                         {"reduce-scatter " + of_two, 2},
                                                         {"all-gather " + of_two, 2}});
  for (const Collective collective : {Collective::whole, Collective::ring}) {
    const Graph graph = spread(whole, 4, 2, collective, 1);
    std::map<char, std::int64_t> weights, state;  // by replica, the last character of names
    for (const OpId op : graph.ops()) {
      weights[graph.name(op).back()] += graph.parameter_bytes(op).count;
      state[graph.name(op).back()] += graph.state_bytes(op).count;
    }
    std::int64_t all = 0;
    for (const char replica : {'1', '2', '3', '4'}) {
      CHECK(weights[replica] == shared + of_experts / 2);
      // Adam has two numbers per parameter.
      CHECK(static_cast<double>(state[replica]) ==
            doctest::Approx(static_cast<double>(2 * (shared / 4 + of_experts / 4))).epsilon(0.001));
      all += state[replica];
    }
    CHECK(all == 2 * (shared + of_experts));
    // Replicas 2 and 4 update halves of the 4 x 16 x 24 numbers that they both hold, 1 and 3 of the others.
    const OpId update = op_named(graph, "layers.1/experts.weight/update@4");
    CHECK(graph.flops(update).value ==
          doctest::Approx(graph.flops(op_named(graph, "layers.1/experts.weight/update@1")).value));
    CHECK(inputs_of(graph, "layers.1/experts.weight/update@4").front().starts_with("reduce-scatter/"));
    CHECK(inputs_of(graph, "layers.1/experts.weight/update@4").front().ends_with(".1/sum@2"));
    CHECK(inputs_of(graph, "layers.1/experts.weight/update@1").front().ends_with(".0/sum@1"));
  }
}

TEST_CASE("with ZeRO 2 and 3, two replicas scatter and gather what they hold of their experts, and all four the rest") {
  const Graph whole = mixture(8);
  std::int64_t shared = 0, of_experts = 0;
  for (const OpId op : whole.ops())
    (std::string{whole.name(op)}.find("/experts") == std::string::npos ? shared : of_experts) +=
        whole.parameter_bytes(op).count;
  const std::string of_four = std::to_string(shared) + " of 4", of_two = std::to_string(of_experts / 2) + " of 2";
  for (const std::size_t zero : {2U, 3U}) {
    CAPTURE(zero);
    const Graph pairs = spread(whole, 4, 2, Collective::whole, zero);
    const Graph twice = split_batch(pairs, 2).graph;
    // With ZeRO 2 updated weights are gathered once a step; with 3, weights in both passes of both microbatches.
    const int gathers = zero == 2 ? 1 : 2 * 2;
    CHECK(collectives(twice) == std::map<std::string, int>{{"all-to-all 1024 of 2", 2 * 2 * 2 * 4},
                                                           {"reduce-scatter " + of_four, 2},
                                                           {"all-gather " + of_four, gathers},
                                                           {"reduce-scatter " + of_two, 2 * 2},
                                                           {"all-gather " + of_two, 2 * gathers}});
    for (const Collective collective : {Collective::whole, Collective::ring}) {
      CAPTURE(static_cast<int>(collective));
      const Graph graph = split_batch(spread(whole, 4, 2, collective, zero), 2).graph;
      const auto replica = [&](OpId op) {  // "NAME@3#2" is of replica 3; ops of a slice of experts number its ranks
        const std::string name{graph.name(op)};
        return name.substr(name.find('@') + 1, 1);
      };
      std::map<std::string, std::int64_t> weights, state;
      std::int64_t held = 0, added = 0;
      for (const OpId op : graph.ops()) {
        weights[replica(op)] += graph.parameter_bytes(op).count;
        state[replica(op)] += graph.state_bytes(op).count;
        for (const TensorId tensor : graph.outputs(op)) {
          if (graph.kept(tensor)) held += graph.bytes(tensor).count;
          if (graph.type(op) == "AddGrad" && std::string{graph.name(op)}.find("/accumulate") != std::string::npos)
            added += graph.bytes(tensor).count;
        }
      }
      for (const char* each : {"1", "2", "3", "4"}) {
        CHECK(weights[each] == (zero == 3 ? 0 : shared + of_experts / 2));
        CHECK(static_cast<double>(state[each]) ==
              doctest::Approx(static_cast<double>(2 * (shared / 4 + of_experts / 4))).epsilon(0.001));
      }
      CHECK(held == (zero == 3 ? shared + of_experts : 0));
      CHECK(added == shared + of_experts);  // once: each replica adds its shares of the second microbatch
    }
  }
}

TEST_CASE("as sends, each rank of an all-to-all keeps its part and sends one to each other") {
  const Graph four = spread(mixture(4), 4, 4, Collective::ring);
  // A sample's 16 rows of 64 bytes: 256 bytes to each rank, including the sender.
  const OpId parts = op_named(four, "layers.0/dispatch.out/all-to-all/0/parts@3");
  CHECK(four.outputs(parts).size() == 4);
  for (const TensorId part : four.outputs(parts)) {
    CHECK(four.bytes(part) == Bytes{256});
    CHECK(four.consumers(part).size() == 1);
  }
  CHECK(inputs_of(four, "layers.0/dispatch.out/all-to-all/0/joined@2") ==
        std::vector<std::string>{
            "layers.0/dispatch.out/all-to-all/0/parts@1:1", "layers.0/dispatch.out/all-to-all/0/parts@2:1",
            "layers.0/dispatch.out/all-to-all/0/parts@3:1", "layers.0/dispatch.out/all-to-all/0/parts@4:1"});
}

TEST_CASE("ZeRO shares the state of what all replicas hold; experts have none to share") {
  const Graph whole = mixture(4);
  for (const std::size_t zero : {1u, 2u, 3u}) {
    CAPTURE(zero);
    const Graph ranks = spread(whole, 4, 4, Collective::whole, zero);
    std::int64_t state = 0, expected = 0;
    for (const OpId op : ranks.ops())
      if (ranks.name(op).ends_with("@1")) state += ranks.state_bytes(op).count;
    for (const OpId op : whole.ops()) expected += whole.state_bytes(op).count;
    CHECK(state == expected / 4);
  }
}

TEST_CASE("one replica of a fold stands for the others' tokens and experts") {
  const Graph folded =
      data_parallel(mixture(4),
                    {.replicas = 4, .collective = Collective::whole, .fold = 1, .classes = {4}, .experts = 2})
          .graph;
  const CollectiveTask* exchange =
      folded.collective(op_named(folded, "layers.0/dispatch.out/all-to-all/0/collective@1"));
  REQUIRE(exchange);
  CHECK(*exchange == CollectiveTask{CollectiveKind::all_to_all, Bytes{1024}, 2, 1});
  int pairs = 0;
  for (const OpId op : folded.ops())
    if (const CollectiveTask* task = folded.collective(op); task && task->ranks == 2 && task->stride == 2) ++pairs;
  CHECK(pairs == 1);
}

TEST_CASE("experts are refused where they cannot be shared") {
  const auto code = [](const Graph& graph, const Replicate& how) {
    return test::refusal_of([&] { data_parallel(graph, how); });
  };
  const Graph graph = mixture(4);
  CHECK(code(graph, {.replicas = 4, .collective = Collective::ring, .experts = 3}) ==
        "experts: 4 replicas cannot be divided into groups of 3 that hold different experts");
  CHECK(code(mixture(6), {.replicas = 3, .collective = Collective::ring, .experts = 3}) ==
        "experts: 8 experts cannot be divided equally among 3 replicas");
  CHECK(code(training_graph(make_network("lenet")), {.replicas = 2, .collective = Collective::ring, .experts = 2}) ==
        "experts: the graph has no experts to divide among replicas");
  CHECK(code(graph, {.replicas = 2, .experts = 2}) ==
        "experts: with a parameter server, replicas cannot hold different experts");
}

TEST_CASE("tensor parallelism divides the products of experts, and neither their router nor their tokens") {
  const auto parallel = tensor_parallel(mixture(4), {2});
  const auto signature = [&](const char* op) { return parallel.graph.signature(op_named(parallel.graph, op)); };
  CHECK(signature("layers.0/experts^2") == "MatMul(float32[8,8,16],float32[8,16,12])->float32[8,8,12]");
  CHECK(signature("layers.0/experts_3^2") == "MatMul(float32[8,8,12],float32[8,12,16])->float32[8,8,16]");
  CHECK(signature("layers.0/experts_3/grad^2") ==
        "MatMulGrad(float32[8,8,16],float32[8,12,16],float32[8,8,12])->float32[8,8,12],float32[8,12,16]");
  CHECK(signature("layers.0/linear_5^1") == "Linear(float32[4,8,16],float32[16,8])->float32[4,8,8]");
  CHECK(inputs_of(parallel.graph, "layers.0/combine^1").front() == "layers.0/experts_3.out/whole^1");
}
