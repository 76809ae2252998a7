#include "trainyard/place/parallel/replicas_placer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

Problem problem_of(const std::string& network, const std::string& cluster) {
  return {training_graph(make_network(network)), make_cluster(preset_cluster(cluster))};
}

Timeline run(const Problem& problem, const ReplicasOptions& options) {
  const Schedule schedule = place_replicas(problem, options);
  check_schedule(scheduled_problem(problem, schedule), schedule);
  return simulate(problem, schedule);
}

}  // namespace

TEST_CASE("each device has a replica, and does its share of the work") {
  const Problem problem = problem_of("resnet50:batch=64", "4xV100");
  const Timeline one = simulate(problem, find_placer("single").place(problem, {}));
  for (const Collective collective :
       {Collective::ring, Collective::tree, Collective::halving_doubling, Collective::parameter_server}) {
    const Timeline timeline = run(problem, {.collective = collective});
    CHECK(timeline.makespan < one.makespan);
    for (const auto& device : timeline.devices) CHECK(4 * device.busy > one.makespan - Nanoseconds{1'000'000});
  }
}

TEST_CASE("the least ZeRO stage that fits is taken, and the last where none does") {
  const Problem roomy{
      training_graph(make_network("bert_large:batch=4,layers=2,seq=64"), {.optimizer = Optimizer::adam}),
      make_cluster(preset_cluster("4xV100"))};
  const Schedule schedule = place_replicas(roomy);
  REQUIRE(schedule.rewrites.size() == 1);
  CHECK(schedule.rewrites.front() == Rewrite{Replicate{.replicas = 4, .collective = Collective::ring}});

  std::vector<Bytes> peaks;
  for (const std::size_t zero : {0u, 1u, 2u, 3u}) {
    Bytes most{0};
    for (const auto& device : run(roomy, {.zero = zero, .fitting = false}).devices) most = std::max(most, device.peak);
    if (!peaks.empty()) CHECK(most < peaks.back());
    peaks.push_back(most);
  }
  for (const std::size_t zero : {0u, 1u, 2u, 3u}) {
    ClusterSpec cluster = preset_cluster("4xV100");
    for (Device& device : cluster.devices) device.memory = peaks[zero];
    const Problem tight{roomy.graph(), make_cluster(std::move(cluster))};
    const Schedule found = place_replicas(tight);
    CHECK(std::get<Replicate>(found.rewrites.front()).zero <= zero);
    CHECK(simulate(tight, found).fits());
  }
}

TEST_CASE("nodes are told by their faster links") {
  CHECK(nodes_of(problem_of("lenet:batch=8", "4xV100"), {DeviceId{0}, DeviceId{1}, DeviceId{2}, DeviceId{3}}) == 4);
  const Problem fabric = problem_of("lenet:batch=64", "2x4xH100");
  std::vector<DeviceId> devices;
  for (const DeviceId device : fabric.devices()) devices.push_back(device);
  CHECK(nodes_of(fabric, devices) == 4);
  const Timeline flat = run(fabric, {.collective = Collective::ring});
  const Schedule schedule = place_replicas(fabric, {.collective = Collective::hierarchical});
  CHECK(std::get<Replicate>(schedule.rewrites.front()).per_node == 4);
  CHECK(simulate(fabric, schedule).makespan > Nanoseconds{0});
  CHECK(flat.fits());
}

TEST_CASE("the ring of a hybrid cube mesh goes over NVLink all the way round") {
  const Problem problem = problem_of("lenet:batch=64", "dgx1-v100");
  std::vector<DeviceId> devices;
  for (const DeviceId device : problem.devices()) devices.push_back(device);
  const std::vector<DeviceId> ring = ring_order(problem, devices);
  REQUIRE(ring.size() == 8);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(problem.cluster().route(ring[i], ring[(i + 1) % 8]).bandwidth.value >= 25e9);
  // Between equal devices, the order stays.
  const Problem even = problem_of("lenet:batch=64", "dgx-a100");
  CHECK(ring_order(even, devices) == devices);
}

TEST_CASE("a ring over slower links is found where the search for one over the fastest ends without an answer") {
  // The last of 16 devices has links of 500 MB/s to p0 and p13, and of 100 MB/s to the others, which have 1 GB/s among
  // each other: of the 14! paths that begin at p0 none comes to it over 1 GB/s.
  ClusterSpec spec = test::full_mesh(16);
  for (Link& link : spec.links) {
    link.latency = Nanoseconds{1'000};  // so that the direct route is the best
    if (link.to == "p15") link.bandwidth = BytesPerSecond{link.from == "p0" || link.from == "p13" ? 5e8 : 1e8};
  }
  const Graph graph = test::make_problem({{std::vector<std::int64_t>(16, 1)}, {}}).graph();
  const Problem problem{graph, make_cluster(std::move(spec))};
  const std::vector<DeviceId> devices{problem.devices().begin(), problem.devices().end()};
  const std::vector<DeviceId> ring = ring_order(problem, devices);
  REQUIRE(ring.size() == 16);
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(problem.cluster().route(ring[i], ring[(i + 1) % 16]).bandwidth >= BytesPerSecond{5e8});
}

TEST_CASE("replicas whose time is up are those of the stages that are done, or none") {
  ClusterSpec cluster = preset_cluster("4xV100");
  for (Device& device : cluster.devices) device.memory = Bytes{1'000};  // nothing fits
  const Problem problem{
      training_graph(make_network("bert_large:batch=4,layers=2,seq=64"), {.optimizer = Optimizer::adam}),
      make_cluster(std::move(cluster))};
  CHECK_THROWS_AS(place_replicas(problem, {.stop = [] { return true; }}), OutOfTime);
  std::size_t asked = 0, most = 1'000'000;
  const std::function<bool()> stop = [&] { return ++asked > most; };
  const auto stage = [&](bool fitting) {
    asked = 0;
    return std::get<Replicate>(place_replicas(problem, {.fitting = fitting, .stop = stop}).rewrites.front()).zero;
  };
  CHECK(stage(true) == 3);
  CHECK(stage(false) == 0);
  most = asked;
  CHECK(stage(true) == 0);
  CHECK(asked == most + 1);
}
