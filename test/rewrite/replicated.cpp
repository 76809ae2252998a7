#include "trainyard/rewrite/replicated.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/microbatches.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// Layers l0, l1, ... with `parameters` scalars each in mixed precision: 2 bytes of weights, 2 of gradients, 12 of
/// Adam's state. `forward` and `backward` are the times of each layer. Updates take no time and follow the whole
/// backward pass, like an optimizer that runs at the end.
Graph layers(std::size_t count, std::int64_t parameters, std::int64_t forward, std::vector<std::int64_t> backward) {
  GraphBuilder builder{"layers"};
  const auto name = [](std::size_t i) { return "l" + std::to_string(i); };
  for (std::size_t i = 0; i < count; ++i)
    builder.add({.name = name(i),
                 .layer = name(i),
                 .colocate = name(i),
                 .parameter_bytes = Bytes{2 * parameters},
                 .state_bytes = Bytes{12 * parameters},
                 .times = {{"cpu", Nanoseconds{forward}}},
                 .inputs = i ? std::vector{name(i - 1)} : std::vector<std::string>{},
                 .outputs = {{name(i), Bytes{1}}}});
  for (std::size_t i = count; i-- > 0;)
    builder.add({.name = name(i) + "/grad",
                 .phase = Phase::backward,
                 .layer = name(i),
                 .colocate = name(i),
                 .times = {{"cpu", Nanoseconds{backward[i % backward.size()]}}},
                 .inputs = {i + 1 < count ? name(i + 1) + ".grad" : name(i)},
                 .outputs = {{name(i) + ".grad", Bytes{1}}, {name(i) + ".weight.grad", Bytes{2 * parameters}}}});
  for (std::size_t i = 0; i < count; ++i)
    builder.add({.name = name(i) + "/update",
                 .phase = Phase::update,
                 .layer = name(i),
                 .colocate = name(i),
                 .times = {{"cpu", Nanoseconds{0}}},
                 .inputs = {name(i) + ".weight.grad"},
                 .after = {"l0/grad"}});
  return std::move(builder).build();
}

Cluster mesh(std::size_t n, Nanoseconds latency = Nanoseconds{0}) {
  ClusterSpec spec{.name = "mesh"};
  for (std::size_t i = 0; i < n; ++i)
    spec.devices.push_back({.name = "d" + std::to_string(i), .kind = "", .device_class = "cpu"});
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) {
      spec.links.push_back({.name = "l" + std::to_string(i) + "-" + std::to_string(j),
                            .from = spec.devices[i].name,
                            .to = spec.devices[j].name,
                            .bandwidth = BytesPerSecond{1e9},
                            .latency = latency});
    }
  return make_cluster(std::move(spec));
}

struct Run {
  Graph graph;
  DataParallelGraph parallel;
  Timeline timeline;
};

Run run(const Graph& graph, const Replicate& options) {
  Run result{.graph = graph, .parallel = data_parallel(graph, options), .timeline = {}};
  const Problem problem{result.parallel.graph, mesh(options.replicas)};
  Schedule schedule{.placement = Placement(problem.op_count())};
  for (const OpId op : problem.ops()) schedule.placement[op] = DeviceId{result.parallel.replica[op]};
  result.timeline = simulate(problem, schedule);
  return result;
}

constexpr Bytes kEachAlone{1};  // so small that every gradient fills a bucket

}  // namespace

TEST_CASE("communication overlaps the backward pass bucket by bucket: 14 where it would be 18 apart") {
  // Forward 3 us; backward passes of 2, 2 and 2 us; an all-reduce of 3 us for each layer, with two ranks two steps of
  // 1.5 us (3000 bytes in all at 1 byte a nanosecond). The all-reduce of layer k ends at c(k) = max(c(k - 1), b(k)) +
  // 3, where b(k) is its backward end: b = 5, 7, 9; c = 8, 11, 14. The times given are twice these, as each rank has
  // half of the batch.
  const auto overlapped =
      run(layers(3, 1'500, 2'000, {4'000}), {.replicas = 2, .collective = Collective::ring, .bucket = kEachAlone});
  CHECK(overlapped.timeline.makespan == Nanoseconds{14'000});
  // One bucket waits for the last gradient: 9 + 9.
  const auto apart =
      run(layers(3, 1'500, 2'000, {4'000}), {.replicas = 2, .collective = Collective::ring, .bucket = Bytes{9'000}});
  CHECK(apart.timeline.makespan == Nanoseconds{18'000});
}

TEST_CASE("ZeRO: what each of 64 replicas holds of 7.5 billion parameters is 120, 31.4, 16.6 and 1.875 GB") {
  const Graph graph = layers(4, 1'875'000'000, 10, {10});
  const double expected[] = {120e9, 31.40625e9, 16.640625e9, 1.875e9};  // a scalar: 16, 4 + 12/64, 2 + 14/64, 16/64 B
  for (const std::size_t stage : {0u, 1u, 2u, 3u}) {
    CAPTURE(stage);
    const Graph parallel =
        data_parallel(graph, {.replicas = 64, .collective = Collective::ring, .zero = stage, .bucket = kEachAlone})
            .graph;
    Bytes held{0};
    for (const OpId op : parallel.ops()) {
      if (!parallel.name(op).ends_with("@64")) continue;
      held += parallel.parameter_bytes(op) + parallel.state_bytes(op);
      for (const TensorId tensor : parallel.outputs(op))
        if (parallel.kept(tensor)) held += parallel.bytes(tensor);
      // Gradients that updates hold; in stages 0 and 1 all of them.
      if (parallel.phase(op) == Phase::update && parallel.name(op).find("/update@") != std::string_view::npos)
        for (const TensorId tensor : parallel.inputs(op)) held += parallel.bytes(tensor);
    }
    CHECK(static_cast<double>(held.count) == doctest::Approx(expected[stage]).epsilon(1e-12));
  }
}

TEST_CASE("ZeRO in simulation: the peak is the closed form and what is on its way of one layer or two") {
  constexpr std::int64_t kLayers = 32, kScalars = 1'000;
  const Graph graph = layers(kLayers, kScalars, 100'000, {100'000});
  const std::int64_t all = kLayers * kScalars;
  const std::int64_t expected[] = {16 * all, 4 * all + 12 * all / 4, 2 * all + 14 * all / 4, 16 * all / 4};
  for (const std::size_t stage : {0u, 1u, 2u, 3u}) {
    CAPTURE(stage);
    const auto ran = run(graph, {.replicas = 4, .collective = Collective::ring, .zero = stage, .bucket = kEachAlone});
    for (const auto& device : ran.timeline.devices) {
      const std::int64_t more = device.peak.count - expected[stage];
      CHECK(more >= 0);
      // In flight: one layer's gradient and its sums, 2 x 2 bytes a scalar; in stage 3 also two gathered layers.
      CHECK(more <= (stage == 3 ? 8 : 4) * kScalars + 2 * kLayers);
    }
  }
}

TEST_CASE("ZeRO: stages 0 to 2 send as much as data parallelism, stage 3 half as much again") {
  const Graph graph = layers(6, 1'200, 1'000, {1'000});
  const std::int64_t gradients = 6 * 2 * 1'200;
  for (const std::size_t n : {2u, 4u}) {
    const auto ranks = static_cast<std::int64_t>(n);
    // Each reduce-scatter or all-gather sends (n - 1)/n of the gradients or of the parameters, which have equal bytes.
    const std::int64_t once = gradients * (ranks - 1) / ranks;
    const std::int64_t expected[] = {2 * once, 2 * once, 2 * once, 3 * once};
    for (const std::size_t stage : {0u, 1u, 2u, 3u}) {
      CAPTURE(stage);
      const auto ran = run(graph, {.replicas = n, .collective = Collective::ring, .zero = stage, .bucket = kEachAlone});
      std::vector<std::int64_t> sent(n, 0);
      for (const Transfer& transfer : ran.timeline.transfers) sent[transfer.from.index()] += transfer.bytes.count;
      for (const std::int64_t each : sent) CHECK(each == expected[stage]);
    }
  }
}

TEST_CASE(
    "ZeRO 2 and 3 scatter the gradients of each of m microbatches, and hold shares of their sum; 3 gathers weights 2 m "
    "times") {
  constexpr std::int64_t kLayers = 16, kScalars = 1'200;
  const Graph graph = layers(kLayers, kScalars, 100'000, {100'000});
  const std::int64_t once = kLayers * 2 * kScalars * 3 / 4;  // (n - 1)/n of the parameters or gradients, 2 bytes each
  for (const std::size_t stage : {1u, 2u, 3u})
    for (const std::size_t m : {2u, 4u}) {
      CAPTURE(stage);
      CAPTURE(m);
      const DataParallelGraph parallel =
          data_parallel(graph, {.replicas = 4, .collective = Collective::ring, .zero = stage, .bucket = kEachAlone});
      const MicrobatchGraph parts = split_batch(parallel.graph, m);
      const Problem problem{parts.graph, mesh(4)};
      Schedule schedule{.placement = Placement(problem.op_count()), .policy = Policy::priority};
      schedule.priority = IdMap<OpId, double>(problem.op_count());
      for (const OpId op : problem.ops()) {
        schedule.placement[op] = DeviceId{parallel.replica[parts.original[op]]};
        schedule.priority[op] = static_cast<double>(m - parts.microbatch[op]);  // microbatches in sequence
      }
      const Timeline timeline = simulate(problem, schedule);
      std::vector<std::int64_t> sent(4, 0);
      for (const Transfer& transfer : timeline.transfers) sent[transfer.from.index()] += transfer.bytes.count;
      // Stage 1 sends gradients and updated weights once a step. Stage 2 sends gradients for each microbatch, and
      // updated weights once. Stage 3 sends gradients, and weights twice, for each microbatch.
      const auto parts_of = static_cast<std::int64_t>(m);
      const std::int64_t passes = stage == 1 ? 2 : stage == 2 ? parts_of + 1 : 3 * parts_of;
      for (const std::int64_t each : sent) CHECK(each == passes * once);
      // At the end each rank holds its shares of weights, gradients and Adam's state, 2, 2 and 12 bytes a scalar. The
      // weights of stages 1 and 2 and the gradients of stage 1 are held whole. In flight are one layer's gradient
      // before its addition, its sum, and its part being sent; in stage 3 gradients of two layers, and two gathered
      // layers for each pass.
      const std::int64_t shared = stage == 1 ? 12 : stage == 2 ? 14 : 16;
      for (const auto& device : timeline.devices) {
        const std::int64_t more = device.peak.count - kLayers * ((16 - shared) * kScalars + shared * kScalars / 4);
        CHECK(more >= 0);
        CHECK(more <= (stage == 3 ? 9 : 3) * 2 * kScalars + 8 * kLayers);
      }
    }
}

TEST_CASE(
    "gradients that go within the pass are made once the last but one before them has gone: two are there, not ten") {
  // A gradient takes 1 us to compute and 6 us to scatter, half of 12000 bytes. The gradients of five layers start at 0,
  // 1, 7, 13 and 19, and have been sent at 7, 13, 19, 25 and 31. The second microbatch continues at 25, 31, 37, 43, 49.
  // In stage 1 nothing waits, and the microbatches take turns. Times are in us.
  constexpr std::int64_t kScalars = 6'000;
  const Graph graph = layers(5, kScalars, 0, {4'000});
  for (const Collective collective : {Collective::ring, Collective::whole})
    for (const std::size_t stage : {1u, 2u, 3u}) {
      CAPTURE(static_cast<int>(collective));
      CAPTURE(stage);
      const DataParallelGraph parallel =
          data_parallel(graph, {.replicas = 2, .collective = collective, .zero = stage, .bucket = kEachAlone});
      const MicrobatchGraph parts = split_batch(parallel.graph, 2);
      const Problem problem{parts.graph, mesh(2)};
      Schedule schedule{.placement = Placement(problem.op_count())};
      for (const OpId op : problem.ops()) schedule.placement[op] = DeviceId{parallel.replica[parts.original[op]]};
      const Timeline timeline = simulate(problem, schedule);
      std::vector<std::int64_t> starts;
      for (std::size_t i = 10; i-- > 0;)
        starts.push_back(
            timeline.ops[*OpIndex{parts.graph}.find(fmt::format("l{}/grad@2~{}", i % 5, i < 5 ? 2 : 1))].start.count /
            1'000);
      if (stage == 1) CHECK(starts == std::vector<std::int64_t>{0, 2, 4, 6, 8, 1, 3, 5, 7, 9});
      if (stage == 2) CHECK(starts == std::vector<std::int64_t>{0, 1, 7, 13, 19, 25, 31, 37, 43, 49});
      for (std::size_t i = 0; i + 2 < starts.size() && stage > 1; ++i) CHECK(starts[i + 2] >= starts[i] + 1 + 6);
    }
}

TEST_CASE("a gather of weights waits only for readers of its own tensor rank and stage") {
  const Graph ranks =
      tensor_parallel(training_graph(make_network("llama2_7b:layers=2,seq=8,hidden=16,heads=2,kv_heads=2,batch=4")),
                      {2})
          .graph;
  Replicate how{.replicas = 2, .collective = Collective::ring, .zero = 3, .bucket = Bytes{1}};
  how.stages = {"layers.1/rms_norm^1"};
  const Graph graph = data_parallel(ranks, how).graph;
  std::size_t waits = 0;
  for (const OpId op : graph.ops())
    if (graph.name(op).find("/own@") != std::string_view::npos)
      for (const OpId earlier : graph.after(op)) {
        ++waits;
        CHECK(tensor_rank(graph.colocation_group(earlier)) == tensor_rank(graph.colocation_group(op)));
        const auto is_early = [&](OpId each) {
          return graph.colocation_group(each).starts_with("embedding") ||
                 graph.colocation_group(each).starts_with("layers.0");
        };
        CHECK(is_early(earlier) == is_early(op));
      }
  CHECK(waits > 0);
}

TEST_CASE("ops of a part of a batch take as long where their weights are gathered as where they are held") {
  for (const char* network : {"lenet:batch=16", "gpt2:layers=2,hidden=64,heads=4,seq=16,vocabulary=1000,batch=16"}) {
    const Graph whole = training_graph(make_network(network));
    const auto parts = [&](std::size_t zero) {
      const Replicate two{.replicas = 2, .collective = Collective::ring, .zero = zero, .bucket = Bytes{100'000}};
      return split_batch(data_parallel(whole, two).graph, 4).graph;
    };
    const Graph held = parts(0), gathered = parts(3);
    std::size_t same = 0;
    for (const OpId op : whole.ops()) {
      if (whole.phase(op) == Phase::update) continue;
      const std::string name = std::string{whole.name(op)} + "@2~3";
      CAPTURE(name);
      const OpId one = *held.find_op(name), other = *gathered.find_op(name);
      CHECK(held.bytes_accessed(one) == gathered.bytes_accessed(other));
      CHECK(held.flops(one).value == gathered.flops(other).value);
      ++same;
    }
    CHECK(same > 20);
  }
}

TEST_CASE("replicas of a network do all of its work, each with weights of its own") {
  const Graph whole = training_graph(make_network("lenet:batch=64"));
  double flops = 0;
  Bytes parameters{0};
  for (const OpId op : whole.ops()) {
    parameters += whole.parameter_bytes(op);
    if (whole.phase(op) != Phase::update) flops += whole.flops(op).value;
  }
  for (const Collective collective : {Collective::ring, Collective::tree, Collective::halving_doubling}) {
    const Graph graph = data_parallel(whole, {.replicas = 4, .collective = collective}).graph;
    double sum = 0;
    Bytes held{0};
    for (const OpId op : graph.ops()) {
      held += graph.parameter_bytes(op);
      if (graph.phase(op) != Phase::update) sum += graph.flops(op).value;
    }
    CHECK(sum == doctest::Approx(flops));
    CHECK(held == 4 * parameters);
    const auto update = graph.find_op("conv1/conv.weight/update@3");
    REQUIRE(update);
    CHECK(graph.name(graph.inputs(*update).front()) == "conv1/conv.weight.grad/sum@3");
    CHECK(graph.colocation_group(*update) == "conv1/conv.weight@3");
  }
}

TEST_CASE("one replica has no collectives, and every stage runs on every network with tied weights") {
  const Graph lenet = training_graph(make_network("lenet:batch=8"));
  CHECK(data_parallel(lenet, {.replicas = 1, .collective = Collective::ring, .zero = 3}).graph.op_count() ==
        lenet.op_count());
  // The input embedding is also the output layer: it is gathered for both.
  for (const char* network : {"gpt2:layers=2", "rnnlm:layers=1,steps=4"}) {
    const Graph graph = training_graph(make_network(network));
    for (const std::size_t stage : {0u, 1u, 2u, 3u})
      CHECK_NOTHROW(data_parallel(graph, {.replicas = 3, .collective = Collective::ring, .zero = stage}));
  }
}

TEST_CASE("a stage that there is not, or without the ring, is refused") {
  const Graph graph = layers(1, 10, 1, {1});
  CHECK_THROWS_AS(data_parallel(graph, {.replicas = 2, .collective = Collective::ring, .zero = 4}), InputError);
  CHECK_THROWS_AS(data_parallel(graph, {.replicas = 2, .collective = Collective::tree, .zero = 1}), InputError);
  CHECK_THROWS_AS(data_parallel(graph, {.replicas = 2, .zero = 1}), InputError);
}
