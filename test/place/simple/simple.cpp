#include "trainyard/place/simple/simple.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

std::vector<std::size_t> placed_on(const Schedule& schedule) {
  std::vector<std::size_t> devices;
  for (const DeviceId device : schedule.placement) devices.push_back(device.index());
  return devices;
}

/// Three independent ops of 1 ns with `bytes` of parameters each, on equal devices of these capacities.
Problem three_ops(std::int64_t bytes, std::vector<std::int64_t> capacities) {
  GraphBuilder builder;
  for (const char* name : {"a", "b", "c"})
    builder.add({.name = name, .parameter_bytes = Bytes{bytes}, .times = {{"cpu", Nanoseconds{1}}}});
  ClusterSpec cluster = test::full_mesh(capacities.size());
  for (std::size_t i = 0; i < capacities.size(); ++i) cluster.devices[i].memory = Bytes{capacities[i]};
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

}  // namespace

TEST_CASE("single takes the fastest device, and the lower id of equals") {
  // sums of times: 12, 9, 9
  CHECK(placed_on(place_single(test::make_problem({{{6, 4, 5}, {6, 5, 4}}, {}}))) == std::vector<std::size_t>{1, 1});
}

TEST_CASE("single takes a device that has the memory before a faster one that has not") {
  CHECK(placed_on(place_single(three_ops(10, {29, 30}))) == std::vector<std::size_t>{1, 1, 1});
  // no device has room: 30 - 20 = 10 too many, or 30 - 25 = 5
  CHECK(placed_on(place_single(three_ops(10, {20, 25}))) == std::vector<std::size_t>{1, 1, 1});
}

TEST_CASE("single puts what the device cannot run where it runs fastest") {
  GraphBuilder builder;
  builder.add({.name = "a", .times = {{"cpu", Nanoseconds{5}}}});
  builder.add({.name = "b", .device_kinds = {"p1", "p2"}, .times = {{"p1", Nanoseconds{9}}, {"p2", Nanoseconds{7}}}});
  builder.add({.name = "c", .device_kinds = {"p0"}, .times = {{"cpu", Nanoseconds{100}}}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(3))};
  // p0: a + c = 105, b elsewhere: 105. p1: a + b = 14, c on p0: 100. p2: 12 and 100, as good as p1, whose id is lower
  CHECK(placed_on(place_single(problem)) == std::vector<std::size_t>{1, 1, 0});
}

TEST_CASE("round-robin deals ops in topological order and passes over what has no room or cannot run them") {
  CHECK(placed_on(place_round_robin(three_ops(10, {100, 100}))) == std::vector<std::size_t>{0, 1, 0});
  // p1 has room for none: all on p0
  CHECK(placed_on(place_round_robin(three_ops(10, {100, 5}))) == std::vector<std::size_t>{0, 0, 0});
  GraphBuilder builder;
  builder.add({.name = "a", .device_kinds = {"p1"}, .times = {{"cpu", Nanoseconds{1}}}});
  builder.add({.name = "b", .colocate = "g", .times = {{"cpu", Nanoseconds{1}}}});
  builder.add({.name = "c", .times = {{"cpu", Nanoseconds{1}}}});
  builder.add({.name = "d", .colocate = "g", .times = {{"cpu", Nanoseconds{1}}}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(3))};
  CHECK(placed_on(place_round_robin(problem)) == std::vector<std::size_t>{1, 2, 0, 2});
}

TEST_CASE("random repeats for a seed, differs between seeds and reaches every device") {
  std::vector<std::vector<std::int64_t>> times(60, {1, 1, 1});
  const Problem problem = test::make_problem({times, {}});
  const auto one = placed_on(place_random(problem, 1));
  CHECK(one == placed_on(place_random(problem, 1)));
  CHECK(one != placed_on(place_random(problem, 2)));
  for (std::size_t device = 0; device < 3; ++device) CHECK(std::ranges::count(one, device) > 5);
}
