#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/cut/partitioners.hpp"
#include "trainyard/place/cut/recursive_bisection.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;

namespace {

const std::vector<std::string> kNames{"bisection", "scotch", "metis"};

bool in_this_build(const std::string& name) {
  return name == "scotch" ? has_scotch() : name == "metis" ? has_metis() : true;
}

/// `count` chains of 6 ops of 10 ns, with tensors of 4 bytes.
Problem chains(std::size_t count, std::size_t devices) {
  GraphBuilder builder;
  for (std::size_t c = 0; c < count; ++c)
    for (int i = 0; i < 6; ++i) {
      const std::string name = "c" + std::to_string(c) + "." + std::to_string(i);
      OpSpec op{.name = name, .times = {{"cpu", Nanoseconds{10}}}, .outputs = {{name + ":0", Bytes{4}}}};
      if (i > 0) op.inputs = {"c" + std::to_string(c) + "." + std::to_string(i - 1) + ":0"};
      builder.add(op);
    }
  return Problem{std::move(builder).build(), make_cluster(test::full_mesh(devices))};
}

}  // namespace

TEST_CASE("partitioners put chains that share nothing on devices of their own") {
  for (const std::size_t devices : {1U, 2U, 3U, 4U, 8U}) {
    const Problem problem = chains(8 * devices, devices);
    for (const std::string& name : kNames) {
      if (!in_this_build(name)) continue;
      CAPTURE(name);
      CAPTURE(devices);
      const Schedule schedule = find_placer(name).place(problem, {});
      const Timeline timeline = simulate(problem, schedule);
      CHECK(timeline.transfers.empty());
      // 8 chains of 60 ns on each device, and one more, since a side may be half a chain above its share.
      CHECK(timeline.makespan <= Nanoseconds{name == "scotch" ? 600 : 540});
    }
  }
}

TEST_CASE("the weight between two groups is one mean transfer for each tensor and reader") {
  GraphBuilder builder;
  builder.add({.name = "a", .times = {{"cpu", Nanoseconds{1}}}, .outputs = {{"x", Bytes{4}}, {"y", Bytes{6}}}});
  builder.add({.name = "b", .colocate = "g", .times = {{"cpu", Nanoseconds{1}}}, .inputs = {"x", "y"}});
  builder.add({.name = "c", .colocate = "g", .times = {{"cpu", Nanoseconds{2}}}, .inputs = {"x"}});
  builder.add({.name = "d", .times = {{"cpu", Nanoseconds{1}}}, .after = {"a"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const GroupGraph graph{problem};
  // x and y count once each for the group: (4 + 1) + (6 + 1). The control edge to d moves nothing.
  CHECK(graph.starts == std::vector<std::uint32_t>{0, 1, 2, 2});
  CHECK(graph.weights == std::vector<std::int64_t>{12, 12});
  CHECK(graph.time(GroupId{1}, 0) == 3);
  CHECK_THROWS_AS(settled_schedule(problem, graph, {}), InputError);
}

TEST_CASE("slow devices get less, and what runs on one kind alone goes there") {
  GraphBuilder builder;
  for (int i = 0; i < 220; ++i) {
    OpSpec op{.name = "op" + std::to_string(i), .times = {{"gpu", Nanoseconds{10}}, {"cpu", Nanoseconds{100}}}};
    if (i % 20 == 0) op.device_kinds = {"cpu"};
    builder.add(op);
  }
  ClusterSpec cluster = test::full_mesh(3);
  cluster.devices[0].device_class = cluster.devices[1].device_class = "gpu";
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  for (const std::string& name : kNames) {
    if (!in_this_build(name)) continue;
    CAPTURE(name);
    const Schedule schedule = find_placer(name).place(problem, {});
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    // 11 ops take 1,100 on the CPU, as long as the other 209 on the two GPUs (1,045), which the libraries do not know.
    CHECK(simulate(problem, schedule).makespan <= Nanoseconds{name == "bisection" ? 1'200 : 3'000});
  }
}

TEST_CASE("partitioners without their library say which package adds it") {
  const Problem problem = chains(2, 2);
  for (const std::string& name : kNames) {
    if (in_this_build(name)) continue;
    CHECK_THROWS_AS(find_placer(name).place(problem, {}), MissingError);
  }
}

TEST_CASE("weights for libraries of 32 bits keep their proportions and their sum below 2^30") {
  CHECK(scaled_weights({1, 2, 3}) == std::vector<std::int32_t>{1, 2, 3});
  const auto scaled = scaled_weights({std::int64_t{1} << 40, std::int64_t{3} << 40, 0});
  CHECK(scaled[0] + scaled[1] + scaled[2] <= 1 << 30);
  CHECK(scaled[1] / 3 - scaled[0] <= 1);
  CHECK(scaled[2] == 1);
}

TEST_CASE("settling leaves what fits, and moves what does not to where it shares most") {
  // a-b-c-d on p0, which has room for two; p1 and p2 are empty.
  GraphBuilder builder;
  for (int i = 0; i < 4; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    OpSpec op{.name = name, .parameter_bytes = Bytes{10}, .times = {{"cpu", Nanoseconds{1}}}};
    op.outputs = {{name + ":0", Bytes{0}}};
    if (i > 0) op.inputs = {std::string(1, static_cast<char>('a' + i - 1)) + ":0"};
    builder.add(op);
  }
  ClusterSpec cluster = test::full_mesh(3);
  for (Device& device : cluster.devices) device.memory = Bytes{20};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  const GroupGraph graph{problem};
  GroupDevices devices(4, DeviceId{0});
  settle_groups(problem, graph, 100, devices);
  // b and c share 2 with p0 each, a and d only 1: a and d leave, each for the emptiest device.
  CHECK(devices.values() == std::vector{DeviceId{1}, DeviceId{0}, DeviceId{0}, DeviceId{2}});
}

TEST_CASE("random problems: every partitioner keeps groups and kinds, and repeats") {
  Random random{99};
  for (int round = 0; round < test::rounds(100); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 40});
    for (const std::string& name : kNames) {
      if (!in_this_build(name)) continue;
      CAPTURE(name);
      const Schedule schedule = find_placer(name).place(problem, {.seed = 3});
      REQUIRE_NOTHROW(check_schedule(problem, schedule));
      CHECK(schedule == find_placer(name).place(problem, {.seed = 3}));
    }
  }
}
