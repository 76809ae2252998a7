#include "trainyard/place/pipedream/pipedream_placer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "place/instances.hpp"
#include "support/refusal.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/placer.hpp"

using namespace trainyard;

namespace {

std::vector<GivenTime> time(std::int64_t ns) { return {{"cpu", Nanoseconds{ns}}}; }

std::vector<std::size_t> devices_of(const Schedule& schedule) {
  std::vector<std::size_t> list;
  for (const DeviceId device : schedule.placement) list.push_back(device.index());
  return list;
}

}  // namespace

TEST_CASE("a profile has the layers' times by pass, their parameters, and what they hand to other layers") {
  // Layer A: a1 (1) -> a2 (2), 10 bytes within. 7 bytes of a2 go to layer B: b (4), whose backward op takes 5
  GraphBuilder builder{"net"};
  builder.add(
      {.name = "a1", .layer = "A", .parameter_bytes = Bytes{3}, .times = time(1), .outputs = {{"x", Bytes{10}}}});
  builder.add({.name = "a2", .layer = "A", .times = time(2), .inputs = {"x"}, .outputs = {{"y", Bytes{7}}}});
  builder.add({.name = "b", .layer = "B", .times = time(4), .inputs = {"y"}, .outputs = {{"z", Bytes{1}}}});
  builder.add({.name = "b'", .phase = Phase::backward, .layer = "B", .times = time(5), .inputs = {"z", "y"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const auto [profile, member] = profile_of(problem, find_layers(problem.graph()), DeviceId{0});
  REQUIRE(profile.layers.size() == 2);
  CHECK(profile.layers[0] ==
        ProfiledLayer{
            .name = "A", .forward = Nanoseconds{3}, .backward = {}, .activations = Bytes{7}, .parameters = Bytes{3}});
  CHECK(profile.layers[1].forward == Nanoseconds{4});
  CHECK(profile.layers[1].backward == Nanoseconds{5});
  CHECK(profile.layers[1].activations == Bytes{0});
  CHECK(profile.edges == std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}});
}

TEST_CASE("layers that feed each other in turn are one") {
  // cell: c1, c2; attention: t1; c1 -> t1 -> c2; then out
  GraphBuilder builder;
  builder.add({.name = "c1", .layer = "cell", .times = time(1), .outputs = {{"x", Bytes{1}}}});
  builder.add({.name = "t1", .layer = "attention", .times = time(1), .inputs = {"x"}, .outputs = {{"y", Bytes{1}}}});
  builder.add({.name = "c2", .layer = "cell", .times = time(1), .inputs = {"y"}, .outputs = {{"z", Bytes{1}}}});
  builder.add({.name = "o", .layer = "out", .times = time(3), .inputs = {"z"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const auto [profile, member] = profile_of(problem, find_layers(problem.graph()), DeviceId{0});
  CHECK(profile.layers.size() == 2);
  CHECK(member.values() == std::vector<std::size_t>{0, 0, 1});
  CHECK(devices_of(place_pipedream(problem)) == std::vector<std::size_t>{0, 0, 0, 1});  // 3 and 3
}

TEST_CASE("a stage is where the slowest one is fastest, activations counted or not") {
  // 4, 4, 4, 6. A cut after the second gives 8 and 10, but 7 bytes there and back take 14; after the third, 12 and 6.
  GraphBuilder builder;
  const std::vector<std::int64_t> times{4, 4, 4, 6}, bytes{1, 7, 1, 1};
  for (std::size_t i = 0; i < times.size(); ++i) {
    OpSpec op{.name = "l" + std::to_string(i),
              .layer = "l" + std::to_string(i),
              .times = time(times[i]),
              .outputs = {{"t" + std::to_string(i), Bytes{bytes[i]}}}};
    if (i) op.inputs.push_back("t" + std::to_string(i - 1));
    builder.add(std::move(op));
  }
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  CHECK(devices_of(place_pipedream(problem)) == std::vector<std::size_t>{0, 0, 0, 1});
  CHECK(devices_of(place_pipedream(problem, {.activations = false})) == std::vector<std::size_t>{0, 0, 1, 1});
}

TEST_CASE("a network with too many places to cut is cut as a chain") {
  // A source and 12 branches: more than 2^12 cuts
  GraphBuilder builder;
  builder.add({.name = "s", .layer = "s", .times = time(1), .outputs = {{"x", Bytes{0}}}});
  for (int i = 0; i < 12; ++i)
    builder.add({.name = "b" + std::to_string(i), .layer = "b" + std::to_string(i), .times = time(1), .inputs = {"x"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const auto devices = devices_of(place_pipedream(problem));
  CHECK(std::ranges::count(devices, 0U) == 6);  // 13 in two: 6 and 7, the earlier cut
  CHECK(std::ranges::is_sorted(devices));
}

TEST_CASE("thousands of layers are joined to 2,000, side by side or in a row") {
  for (const bool in_a_row : {false, true}) {
    GraphBuilder builder;
    for (int i = 0; i < 5'000; ++i) {
      OpSpec op{.name = "l" + std::to_string(i), .times = time(1), .outputs = {{"t" + std::to_string(i), Bytes{0}}}};
      if (i) op.inputs.push_back(in_a_row ? "t" + std::to_string(i - 1) : "t0");
      builder.add(std::move(op));
    }
    const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
    const auto devices = devices_of(place_pipedream(problem));
    CHECK(std::ranges::count(devices, 0U) == 2'500);
    CHECK(std::ranges::is_sorted(devices));
  }
}

TEST_CASE("where memory counts and nothing has room there is no partition") {
  GraphBuilder builder;
  for (int i = 0; i < 3; ++i)
    builder.add({.name = "l" + std::to_string(i),
                 .layer = "l" + std::to_string(i),
                 .parameter_bytes = Bytes{50},
                 .times = time(1),
                 .after = i ? std::vector{"l" + std::to_string(i - 1)} : std::vector<std::string>{}});
  ClusterSpec cluster = test::full_mesh(2);
  for (Device& device : cluster.devices) device.memory = Bytes{40};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  CHECK_NOTHROW(find_placer("pipedream").place(problem, {}));
  CHECK(test::code_of([&] {
          find_placer("pipedream").place(problem, {.parameters = {{"memory", "yes"}}});
        }) == "no-partition");
}
