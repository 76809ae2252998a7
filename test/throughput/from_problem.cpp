#include "trainyard/throughput/from_problem.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "support/random_problem.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/throughput/evaluate.hpp"

using namespace trainyard;

namespace {

constexpr Nanoseconds ns(std::int64_t count) { return Nanoseconds{count}; }

/// Cluster of `gpus` GPUs and `cpus` CPUs around a switch. Each link takes 1 ns per byte.
Cluster star(std::size_t gpus, std::size_t cpus) {
  ClusterSpec spec{.name = "star", .devices = {}, .switches = {"host"}};
  for (std::size_t i = 0; i < gpus + cpus; ++i) {
    const std::string name = (i < gpus ? "gpu" : "cpu") + std::to_string(i < gpus ? i : i - gpus);
    spec.devices.push_back({.name = name, .kind = "", .device_class = i < gpus ? "gpu" : "cpu"});
    spec.links.push_back({.name = name + "-host", .from = name, .to = "host", .bandwidth = BytesPerSecond{1e9}});
  }
  return make_cluster(std::move(spec));
}

OpSpec op(std::string name, Phase phase, std::vector<std::string> inputs, std::int64_t bytes, std::string layer = "") {
  return {.name = name,
          .phase = phase,
          .layer = std::move(layer),
          .parameter_bytes = Bytes{100},
          .times = {{"gpu", ns(4)}, {"cpu", ns(9)}},
          .inputs = std::move(inputs),
          .outputs = {{name, Bytes{bytes}}}};
}

Graph small_training(const std::string& layer) {
  GraphBuilder builder{"small"};
  builder.add(op("a", Phase::forward, {}, 10, layer));
  builder.add(op("b", Phase::forward, {"a"}, 20, layer));
  builder.add(op("b/grad", Phase::backward, {"b", "a"}, 30, layer));
  builder.add(op("add", Phase::backward, {"b/grad"}, 5, layer));
  builder.add(op("a/grad", Phase::backward, {"add", "a"}, 1, layer));
  return std::move(builder).build();
}

}  // namespace

TEST_CASE("backward ops follow the forward ops that they read from where the graph names layers") {
  const LoadProblem load = load_problem(Problem{small_training("l"), star(2, 0)});
  CHECK(load.color_count() == 2);
  CHECK(load.op(OpId{2}).color == load.op(OpId{1}).color);  // b/grad reads a and b; b is the later one
  CHECK(load.op(OpId{3}).color == load.op(OpId{1}).color);  // add follows b/grad
  CHECK(load.op(OpId{4}).color == load.op(OpId{0}).color);
  CHECK(load_problem(Problem{small_training(""), star(2, 0)}).color_count() == 5);
}

TEST_CASE("times that picoseconds do not hold are refused as too large") {
  // 2^60 ps are 1.15 x 10^15 ns, and 2^63 ps are 9.22 x 10^15 ns. 1.9 x 10^16 ns modulo 2^64 ps are 5.5 x 10^14 ns.
  for (const std::int64_t time : {std::int64_t{2'000'000'000'000'000}, std::int64_t{10'000'000'000'000'000},
                                  std::int64_t{19'000'000'000'000'000}, std::int64_t{1} << 62}) {
    GraphBuilder builder{"long"};
    builder.add({.name = "a", .times = {{"gpu", ns(time)}}});
    const Problem problem{std::move(builder).build(), star(1, 0)};
    CHECK(test::code_of([&] { load_problem(problem); }) == "too-large");
  }
}

TEST_CASE("sizes are weights, or also what is kept for the backward pass") {
  const Problem problem{small_training("l"), star(2, 0)};
  CHECK(load_problem(problem).op(OpId{0}).size == Bytes{100});
  const LoadProblem held = load_problem(problem, {.memory = LoadMemory::held});
  CHECK(held.op(OpId{0}).size == Bytes{110});
  CHECK(held.op(OpId{2}).size == Bytes{100});  // only backward ops read its output
}

TEST_CASE("kinds: alike devices are one, CPUs do not pay unless there is nothing else") {
  const LoadProblem mixed = load_problem(Problem{small_training("l"), star(3, 2)});
  REQUIRE(mixed.kind_count() == 2);
  CHECK(mixed.devices_of(KindId{0}).size() == 3);
  CHECK(mixed.cost(TensorId{0}, KindId{0}) == Picoseconds{10'000});
  CHECK(mixed.cost(TensorId{0}, KindId{1}) == Picoseconds{0});
  const LoadProblem cpus = load_problem(Problem{small_training("l"), star(0, 2)});
  REQUIRE(cpus.kind_count() == 1);
  CHECK(cpus.cost(TensorId{0}, KindId{0}) == Picoseconds{10'000});
}

TEST_CASE(
    "the load of a placement is the same in the model and with each transfer's own route where routes are alike") {
  Random random{13};
  for (int round = 0; round < test::rounds(200); ++round) {
    const Problem any = test::random_problem(random, {.most_ops = 12});
    const std::size_t gpus = 1 + random.below(3), cpus = random.below(2);
    GraphBuilder builder{"g"};
    for (const OpId id : any.ops()) {
      OpSpec spec = op("o" + std::to_string(id.index()), random.below(2) ? Phase::forward : Phase::backward, {},
                       random.between(0, 9));
      for (const TensorId tensor : any.graph().inputs(id)) {
        const std::string from = "o" + std::to_string(any.graph().producer(tensor).index());
        if (std::ranges::find(spec.inputs, from) == spec.inputs.end()) spec.inputs.push_back(from);
      }
      builder.add(std::move(spec));
    }
    const Problem problem{std::move(builder).build(), star(gpus, cpus)};
    const LoadProblem load = load_problem(problem);
    Placement placement(problem.op_count());
    for (const OpId id : problem.ops()) placement[id] = DeviceId{random.below(gpus + cpus)};
    CHECK(evaluate_load(load, placement).value == Picoseconds{max_load(problem, placement).count * 1000});
  }
}
