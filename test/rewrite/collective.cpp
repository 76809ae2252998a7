#include "trainyard/rewrite/collective.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/cost/nccl_model.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

struct Speed {
  Nanoseconds latency;
  double bytes_per_second;
};

/// Devices d0, d1, ... with a separate link for each ordered pair.
Cluster mesh(std::size_t n, const std::function<Speed(std::size_t, std::size_t)>& speed) {
  ClusterSpec spec{.name = "mesh"};
  for (std::size_t i = 0; i < n; ++i)
    spec.devices.push_back({.name = "d" + std::to_string(i), .kind = "", .device_class = "cpu"});
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) {
      const Speed s = speed(i, j);
      spec.links.push_back({.name = "l" + std::to_string(i) + "-" + std::to_string(j),
                            .from = spec.devices[i].name,
                            .to = spec.devices[j].name,
                            .bandwidth = BytesPerSecond{s.bytes_per_second},
                            .latency = s.latency});
      spec.routes.push_back({spec.devices[i].name, spec.devices[j].name, {spec.links.back().name}});
      spec.routes.push_back({spec.devices[j].name, spec.devices[i].name, {spec.links.back().name}});
    }
  return make_cluster(std::move(spec));
}

/// The timeline of an all-reduce: every rank produces its array in zero time and ends with the sum.
Timeline run(Collective collective, std::size_t ranks, Bytes bytes, const Cluster& cluster, std::size_t per_node = 1,
             const char* on = "cpu") {
  GraphBuilder builder{"collective"};
  std::vector<OpSpec> like;
  std::vector<std::vector<std::string>> inputs;
  for (std::size_t r = 0; r < ranks; ++r) {
    like.push_back({.colocate = "rank" + std::to_string(r), .times = {{on, Nanoseconds{0}}}});
    OpSpec source = like.back();
    source.name = "array" + std::to_string(r);
    source.outputs = {{source.name, bytes}};
    builder.add(source);
    inputs.push_back({source.name});
  }
  CollectiveOps ops{"sum", like};
  const auto sums = ops.all_reduce(collective, inputs, bytes, per_node);
  for (std::size_t r = 0; r < ranks; ++r) ops.join(r, "end", sums[r], {{"whole" + std::to_string(r), bytes}});
  for (const OpSpec& op : ops.ops()) builder.add(op);
  const Problem problem{std::move(builder).build(), cluster};
  Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0})};
  for (const OpId op : problem.ops())
    if (!problem.graph().collective(op))
      schedule.placement[op] = DeviceId{std::stoul(problem.graph().colocation_group(op).substr(4))};
  return simulate(problem, schedule);
}

Cluster even(std::size_t n, std::int64_t latency_us, double bandwidth) {
  return mesh(n, [&](std::size_t, std::size_t) { return Speed{Nanoseconds{latency_us * 1000}, bandwidth}; });
}

constexpr Bytes kArray{100'000'000};
constexpr std::int64_t kMicrosecond = 1000;

}  // namespace

TEST_CASE("an all-reduce of 100 MB by 4 ranks at 50 GB/s and 5 us takes what the closed forms say") {
  const Cluster cluster = even(4, 5, 50e9);
  // Ring: 2 x 3 steps of 5 us + 25 MB / 50 GB/s = 505 us.
  CHECK(run(Collective::ring, 4, kArray, cluster).makespan == Nanoseconds{6 * 505 * kMicrosecond});
  // Halving and doubling: 4 x 5 us + 2 x (1000 + 500) us.
  CHECK(run(Collective::halving_doubling, 4, kArray, cluster).makespan == Nanoseconds{3020 * kMicrosecond});
  // Tree: 2 x 2 steps of 5 us + 2000 us.
  CHECK(run(Collective::tree, 4, kArray, cluster).makespan == Nanoseconds{8020 * kMicrosecond});
}

TEST_CASE("16 ranks in 2 nodes: the flat ring at the pace of the network, the hierarchy in a quarter of that") {
  // 30 steps of 10 us + 6.25 MB / 10 GB/s = 625 us.
  CHECK(run(Collective::ring, 16, kArray, even(16, 10, 10e9)).makespan == Nanoseconds{19'050 * kMicrosecond});
  const Cluster nodes = mesh(16, [](std::size_t i, std::size_t j) {
    return i / 8 == j / 8 ? Speed{Nanoseconds{5'000}, 50e9} : Speed{Nanoseconds{10'000}, 10e9};
  });
  // Within nodes 2 x 7 x (5 + 12.5 MB / 50 GB/s = 250) us, between nodes 2 x (10 + 6.25 MB / 10 GB/s = 625) us.
  CHECK(run(Collective::hierarchical, 16, kArray, nodes, 8).makespan == Nanoseconds{4'840 * kMicrosecond});
  // On one node the hierarchy is the ring.
  CHECK(run(Collective::hierarchical, 4, kArray, even(4, 5, 50e9), 4).makespan ==
        run(Collective::ring, 4, kArray, even(4, 5, 50e9)).makespan);
}

TEST_CASE("8 ranks at 10 us and 10 GB/s: a tree is faster below 188 kB, a ring above") {
  const Cluster cluster = even(8, 10, 10e9);
  const auto time = [&](Collective collective, std::int64_t bytes) {
    return run(collective, 8, Bytes{bytes}, cluster).makespan;
  };
  // Ring: 14 x (10 us + 2350 ns). Tree: 6 x (10 us + 18800 ns).
  CHECK(time(Collective::ring, 188'000) == Nanoseconds{172'900});
  CHECK(time(Collective::tree, 188'000) == Nanoseconds{172'800});
  CHECK(time(Collective::ring, 189'000) < time(Collective::tree, 189'000));
}

TEST_CASE("the closed forms hold for any number of ranks, and nobody sends more than they say") {
  for (const std::size_t n : {1u, 2u, 3u, 5u, 6u, 7u, 8u}) {
    CAPTURE(n);
    const Cluster cluster = even(n, 1, 1e9);  // 1 us, 1 byte a nanosecond
    const std::int64_t bytes = 840'000, steps = static_cast<std::int64_t>(n) - 1;
    const auto ring = run(Collective::ring, n, Bytes{bytes}, cluster);
    CHECK(ring.makespan == Nanoseconds{2 * steps * (1000 + bytes / static_cast<std::int64_t>(n))});
    std::vector<std::int64_t> sent(n, 0);
    for (const Transfer& transfer : ring.transfers) sent[transfer.from.index()] += transfer.bytes.count;
    for (const std::int64_t each : sent) CHECK(each == 2 * steps * bytes / static_cast<std::int64_t>(n));
    std::int64_t depth = 0;
    for (std::size_t reach = 1; reach < n; reach *= 2) ++depth;
    CHECK(run(Collective::tree, n, Bytes{bytes}, cluster).makespan == Nanoseconds{2 * depth * (1000 + bytes)});
    if (n == 1 || n == 2 || n == 8)
      CHECK(run(Collective::halving_doubling, n, Bytes{bytes}, cluster).makespan ==
            Nanoseconds{2 * depth * 1000 + 2 * steps * bytes / static_cast<std::int64_t>(n)});
  }
}

TEST_CASE("what hands parts on holds nothing twice: a ring needs its array, and a part or two on their way") {
  const auto ring = run(Collective::ring, 4, Bytes{400}, even(4, 0, 1e9));
  for (const auto& device : ring.devices) {
    CHECK(device.peak >= Bytes{400});
    CHECK(device.peak <= Bytes{600});
  }
}

TEST_CASE("whole and expanded rings take the same time where one runs alone and additions take none") {
  for (const std::size_t n : {2u, 3u, 4u, 7u, 8u, 16u})
    for (const std::int64_t bytes : {1'000, 1'000'000, 100'000'000}) {
      CAPTURE(n);
      CAPTURE(bytes);
      const Cluster cluster = even(n, 5, 50e9);
      const double whole = seconds(run(Collective::whole, n, Bytes{bytes}, cluster).makespan);
      const double ring = seconds(run(Collective::ring, n, Bytes{bytes}, cluster).makespan);
      CHECK(std::abs(whole / ring - 1) < 0.01);
    }
  // On a fabric with 2 hosts of 8: 30 steps at the speed of one network card.
  const Cluster dgx = make_cluster(preset_cluster("2xdgx-a100"));
  const double whole = seconds(run(Collective::whole, 16, kArray, dgx, 1, "gpu").makespan);
  CHECK(std::abs(whole / seconds(run(Collective::ring, 16, kArray, dgx, 1, "gpu").makespan) - 1) < 0.01);
}

TEST_CASE("ranks that an algorithm cannot have are refused") {
  CHECK_THROWS_AS(check_collective(Collective::halving_doubling, 6, 1), InputError);
  CHECK_THROWS_AS(check_collective(Collective::hierarchical, 6, 4), InputError);
  CHECK_NOTHROW(check_collective(Collective::hierarchical, 6, 3));
  for (const Collective each : {Collective::parameter_server, Collective::ring, Collective::halving_doubling,
                                Collective::tree, Collective::hierarchical, Collective::whole})
    CHECK(find_collective(name_of(each)) == each);
  CHECK_FALSE(find_collective("rings"));
}

TEST_CASE("a collective has inputs of each rank, and each rank a part for each") {
  CollectiveOps ops{"sum", {OpSpec{}, OpSpec{}}};
  for (const Collective each : {Collective::ring, Collective::tree, Collective::whole})
    CHECK_THROWS_AS(ops.all_reduce(each, {{"a"}}, Bytes{8}), InputError);
  CHECK_THROWS_AS(ops.all_reduce(Collective::parameter_server, {{"a"}, {"b"}}, Bytes{8}), InputError);
  CHECK_THROWS_AS(ops.divide(5, "step", {"a"}, Bytes{8}, 2), InputError);
  CHECK_THROWS_AS(ops.reduce_scatter("step", {0, 1}, {}), InputError);
  CHECK_THROWS_AS(ops.reduce_scatter("step", {0, 1}, {{}, {}}), InputError);
  CHECK_THROWS_AS(ops.all_gather("step", {0, 1}, {}), InputError);
  CHECK_THROWS_AS(CollectiveOps("none", {}).whole({}, {}, {}), InputError);
}

TEST_CASE(
    "expanded rings on an NVSwitch agree with NCCL's model within 1 % from 256 MiB, their trees do not pipeline") {
  const Cluster cluster = make_cluster(preset_cluster("dgx-a100"));
  const NcclMachine machine{};  // also 264 GB/s a GPU
  const auto apart = [&](Collective collective, NcclAlgorithm algorithm, std::int64_t bytes) {
    const auto model =
        nccl_time(CollectiveKind::all_reduce, Bytes{bytes}, 8, 1, machine, algorithm, NcclProtocol::simple);
    REQUIRE(model);
    return seconds(run(collective, 8, Bytes{bytes}, cluster, 1, "gpu").makespan) / model->seconds;
  };
  // With S bytes and bandwidth B, the ring takes 14 (5 us + S / 8 B), NCCL's model 8.4 + 14 x 3.4 us + 14/8 S / B: 70
  // us of latency against 56, and equal bytes.
  CHECK(apart(Collective::ring, NcclAlgorithm::ring, 1 << 20) == doctest::Approx(76.95 / 62.95).epsilon(1e-3));
  CHECK(apart(Collective::ring, NcclAlgorithm::ring, 1 << 28) == doctest::Approx(1849.4 / 1835.4).epsilon(1e-3));
  // The tree takes 2 x 3 (5 us + S / B) without overlap. NCCL's tree is pipelined: 64.4 us + 2 S / (.92 x .9 B).
  CHECK(apart(Collective::tree, NcclAlgorithm::tree, 1 << 28) == doctest::Approx(6131 / 2520.4).epsilon(2e-3));
}
