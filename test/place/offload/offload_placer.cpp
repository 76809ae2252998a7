#include "trainyard/place/offload/offload_placer.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/naive.hpp"
#include "support/support.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

constexpr OffloadOptions kOffload{.recompute = false};

struct ChainLayer {
  std::int64_t forward, backward, bytes;
};

/// Forward ops f1, f2, ... and backward ops ..., b2, b1. bi reads the output of fi and is on its device.
Graph layer_chain(const std::vector<ChainLayer>& layers, Bytes parameters = Bytes{0}) {
  GraphBuilder builder{"chain"};
  const auto name = [](char letter, std::size_t i) { return letter + std::to_string(i + 1); };
  for (std::size_t i = 0; i < layers.size(); ++i)
    builder.add({.name = name('f', i),
                 .colocate = name('l', i),
                 .parameter_bytes = parameters,
                 .times = {{"gpu", Nanoseconds{layers[i].forward}}},
                 .inputs = i > 0 ? std::vector{name('a', i - 1)} : std::vector<std::string>{},
                 .outputs = {{name('a', i), Bytes{layers[i].bytes}}}});
  for (std::size_t i = layers.size(); i-- > 0;) {
    OpSpec op{.name = name('b', i),
              .phase = Phase::backward,
              .colocate = name('l', i),
              .times = {{"gpu", Nanoseconds{layers[i].backward}}},
              .inputs = {name('a', i)},
              .outputs = {{name('g', i), Bytes{1}}}};
    if (i + 1 < layers.size()) op.inputs.push_back(name('g', i + 1));
    builder.add(op);
  }
  return std::move(builder).build();
}

/// `gpus` GPUs with `memory` each and their host, joined by links of 1 B/ns in each direction.
Cluster beside_host(Bytes memory, std::size_t gpus = 1, Bytes host = Bytes{1'000'000}) {
  ClusterSpec spec{.name = "beside-host", .devices = {{.name = "cpu0", .device_class = "cpu", .memory = host}}};
  for (std::size_t i = 0; i < gpus; ++i) {
    const std::string name = "gpu" + std::to_string(i);
    spec.devices.push_back({.name = name, .device_class = "gpu", .memory = memory});
    spec.links.push_back({.name = "pcie" + name, .from = name, .to = "cpu0", .bandwidth = BytesPerSecond{1e9}});
  }
  return make_cluster(std::move(spec));
}

Outcome offloaded_outcome(const Problem& problem, const Schedule& schedule) {
  const Problem placed = scheduled_problem(problem, schedule);
  return Evaluator{placed}.outcome(schedule);
}

/// Least outcome over all sets of offloaded tensors of a chain and, for each tensor, over the ops that may wait until
/// it has left and the ops after which it may come back.
Outcome best_of_all(const Problem& problem, std::size_t layers) {
  const std::size_t ops = 2 * layers;  // op ids are in the order in which ops run
  std::optional<Outcome> best;
  std::vector<Rewrite> rewrites;
  const auto choose = [&](const auto& self, std::size_t tensor) -> void {
    if (tensor == 0) {
      const Problem placed = apply_rewrites(problem, rewrites);
      Schedule schedule{.placement = Placement(placed.op_count(), DeviceId{1}), .rewrites = rewrites};
      for (std::size_t i = ops; i < placed.op_count(); ++i) schedule.placement[OpId{i}] = DeviceId{0};
      const Outcome outcome = Evaluator{placed}.outcome(schedule);
      if (!best || outcome < *best) best = outcome;
      return;
    }
    self(self, tensor - 1);
    const auto name = [&](std::size_t op) { return std::string{problem.graph().name(OpId{op})}; };
    const std::size_t reader = ops - tensor;
    for (std::size_t before = tensor + 1; before < reader; ++before)
      for (std::size_t after = before; after < reader; ++after) {
        rewrites.emplace_back(Offload{"a" + std::to_string(tensor), name(before), name(after)});
        self(self, tensor - 1);
        rewrites.pop_back();
      }
  };
  choose(choose, layers);  // last tensor first, as backward ops read them
  return *best;
}

Finding no_placement(const Problem& problem) {
  try {
    place_offload(problem, kOffload, {});
  } catch (const NoPlacementError& error) {
    return error.findings().front();
  }
  FAIL("nothing is refused");
  return {};
}

}  // namespace

TEST_CASE("the tensor of the first layer leaves where one has to, and comes back as soon as there is room") {
  // Without offloading, 100 + 60 + 40 + 1 are held while b3 runs. With 165, f3 waits until a1 has left (10 + 100 ns)
  // and runs until 120, b3 until 140. Then a3 goes (40) and g2 comes (1). a1 comes back while b2 runs, from 140 to 240,
  // and b1 ends at 260.
  const std::vector<ChainLayer> layers{{10, 20, 100}, {10, 20, 60}, {10, 20, 40}};
  const Problem problem{layer_chain(layers), beside_host(Bytes{165})};
  const Schedule schedule = place_offload(problem, kOffload, {});
  CHECK(schedule.rewrites == std::vector<Rewrite>{Offload{"a1", "f3", "b3"}});
  const Timeline timeline = simulate(problem, schedule);
  CHECK(timeline.makespan == Nanoseconds{260});
  CHECK(timeline.devices[DeviceId{1}].peak == Bytes{162});
  CHECK(timeline.devices[DeviceId{0}].peak == Bytes{100});
  CHECK(timeline.fits());
}

TEST_CASE("what fits as it is stays as it is") {
  const Problem problem{layer_chain({{10, 20, 100}, {10, 20, 60}, {10, 20, 40}}), beside_host(Bytes{201})};
  const Schedule schedule = place_offload(problem, kOffload, {});
  CHECK(schedule.rewrites.empty());
  CHECK(simulate(problem, schedule).makespan == Nanoseconds{90});
}

TEST_CASE("without GPUs the network is tried on one device of each kind") {
  // p0 has room for the first op of three. HEFT begins there, and pays 100 ns for a transfer.
  ClusterSpec spec = test::full_mesh(2);
  spec.devices[0].memory = Bytes{240};
  GraphBuilder builder{"chain"};
  for (const char* name : {"a", "b", "c"}) {
    OpSpec op{.name = name,
              .parameter_bytes = Bytes{*name == 'a' ? 4 : 80},
              .times = {{"cpu", Nanoseconds{10}}},
              .outputs = {{std::string{name} + ".0", Bytes{100}}}};
    if (*name > 'a') op.inputs = {std::string(1, static_cast<char>(*name - 1)) + ".0"};
    builder.add(op);
  }
  const Problem problem{std::move(builder).build(), make_cluster(std::move(spec))};
  CHECK(simulate(problem, place_offload(problem, kOffload, {})).makespan == Nanoseconds{30});
}

TEST_CASE("what cannot fit says by how much, and what there is no host for that there is none") {
  const std::vector<ChainLayer> layers{{10, 20, 100}, {10, 20, 60}, {10, 20, 40}};
  // f2 reads a1 and makes a2: at least 160.
  const Finding large = no_placement(Problem{layer_chain(layers), beside_host(Bytes{150})});
  CHECK(large.code == "out-of-memory");
  CHECK(large.message.find("while op 'f2' runs, gpu0 needs 10 B more than its 150 B") != std::string::npos);
  const Finding full = no_placement(Problem{layer_chain(layers), beside_host(Bytes{165}, 1, Bytes{90})});
  CHECK(full.code == "out-of-memory");
  CHECK(full.message.find("exceeds the memory by 10 B") != std::string::npos);  // a1 on the host
  ClusterSpec alone{.name = "alone", .devices = {{.name = "gpu0", .device_class = "gpu", .memory = Bytes{165}}}};
  const Finding none = no_placement(Problem{layer_chain(layers), make_cluster(std::move(alone))});
  CHECK(none.code == "no-host");
  CHECK(none.message.find("'alone'") != std::string::npos);
  const Problem problem{layer_chain(layers), beside_host(Bytes{165})};
  const Schedule same = place_offload(problem, {}, {.rewrites = false});
  CHECK(same.rewrites.empty());
}

TEST_CASE("on small chains hardly any choice of tensors, waits and returns is better than the one that is found") {
  Random random{8};
  int rounds = 0, equal = 0;
  while (rounds < test::rounds(30)) {
    std::vector<ChainLayer> layers(static_cast<std::size_t>(rounds % 6 == 0 ? 5 : random.between(3, 4)));
    for (ChainLayer& layer : layers) layer = {random.between(1, 40), random.between(1, 80), 10 * random.between(1, 8)};
    const Problem whole{layer_chain(layers), beside_host(Bytes{1'000'000})};
    const Schedule alone{.placement = Placement(whole.op_count(), DeviceId{1})};
    const std::int64_t peak = simulate(whole, alone).devices[DeviceId{1}].peak.count;
    const Problem problem{layer_chain(layers), beside_host(Bytes{peak * random.between(50, 99) / 100})};
    const Outcome best = best_of_all(problem, layers.size());
    if (best.excess > Bytes{0}) {
      CHECK(no_placement(problem).code == "out-of-memory");
      continue;
    }
    const Schedule schedule = place_offload(problem, kOffload, {});
    const Outcome found = offloaded_outcome(problem, schedule);
    CHECK(found.excess == Bytes{0});
    CHECK(found.makespan >= best.makespan);
    CHECK(found.makespan >= best_lower_bound(problem).value);
    CHECK(place_offload(problem, kOffload, {}) == schedule);
    ++rounds;
    equal += found.makespan == best.makespan ? 1 : 0;
    CHECK(found.makespan.count * 100 <= best.makespan.count * 110);
  }
  CHECK(10 * equal >= 9 * rounds);
}

TEST_CASE("networks that fit on no GPU as they are fit with a host beside it") {
  for (const char* name : {"resnet50:batch=256", "vgg16:batch=256"}) {
    CAPTURE(name);
    const Problem problem{training_graph(make_network(name)), make_cluster(preset_cluster("cpu-v100"))};
    const PlaceOptions options{.budget = {.evaluations = 30}};
    const Schedule schedule = place_offload(problem, {}, options);
    CHECK_FALSE(schedule.rewrites.empty());
    const Problem placed = scheduled_problem(problem, schedule);
    CHECK_NOTHROW(check_schedule(placed, schedule));
    const Timeline timeline = simulate(placed, schedule);
    CHECK(timeline.fits());
    CHECK(timeline.makespan >= best_lower_bound(placed).value);
    CHECK(schedule == place_offload(problem, {}, options));
  }
}

TEST_CASE("GPUs that a network needs for its parameters offload each over a link of its own") {
  // Each layer has 100 B of parameters: 600 on one GPU of 480, or 300 on each of two, which leaves 180 for activations.
  const std::vector<ChainLayer> layers(6, {10, 20, 60});
  const Problem problem{layer_chain(layers, Bytes{100}), beside_host(Bytes{480}, 2)};
  const Schedule schedule = place_offload(problem, kOffload, {});
  const Problem placed = scheduled_problem(problem, schedule);
  CHECK_NOTHROW(check_schedule(placed, schedule));
  const Timeline timeline = simulate(placed, schedule);
  CHECK(timeline.fits());
  CHECK(timeline == test::naive_simulate(placed, schedule));
  std::set<DeviceId> leave;
  for (const Rewrite& rewrite : schedule.rewrites)
    for (const TensorId tensor : problem.graph().tensors())
      if (problem.graph().name(tensor) == std::get<Offload>(rewrite).tensor)
        leave.insert(schedule.placement[problem.graph().producer(tensor)]);
  CHECK(leave == std::set<DeviceId>{DeviceId{1}, DeviceId{2}});
}

TEST_CASE("networks fit in shares of the memory that they take, and the slow simulator says so too") {
  for (const char* name : {"lenet:batch=64", "squeezenet1_1:batch=2,image=64"}) {
    const Graph graph = training_graph(make_network(name));
    ClusterSpec cluster = preset_cluster("cpu-v100");
    const Problem whole{graph, make_cluster(cluster)};
    const Schedule alone{.placement = Placement(whole.op_count(), DeviceId{1})};
    const Timeline most = simulate(whole, alone);
    for (const std::int64_t percent : {95, 80, 65}) {
      CAPTURE(name);
      CAPTURE(percent);
      cluster.devices[1].memory = Bytes{most.devices[DeviceId{1}].peak.count * percent / 100};
      const Problem problem{graph, make_cluster(cluster)};
      for (const bool again : {false, true}) {
        const Schedule schedule = place_offload(problem, {.recompute = again}, {.budget = {.evaluations = 60}});
        const Problem placed = scheduled_problem(problem, schedule);
        CHECK_NOTHROW(check_schedule(placed, schedule));
        const Timeline timeline = simulate(placed, schedule);
        CHECK(timeline.fits());
        CHECK(timeline.makespan >= best_lower_bound(placed).value);
        CHECK(timeline == test::naive_simulate(placed, schedule));
      }
    }
  }
}
