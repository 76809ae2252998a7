#include "trainyard/place/kit/memory_ledger.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

TEST_CASE("a group holds parameters, state and saved outputs; workspace and the rest only count once") {
  GraphBuilder builder;
  builder.add({.name = "f",
               .parameter_bytes = Bytes{100},
               .state_bytes = Bytes{50},
               .workspace_bytes = Bytes{7},
               .times = {{"cpu", Nanoseconds{1}}},
               .outputs = {{"saved", Bytes{20}}, {"kept", Bytes{3}, true}, {"passing", Bytes{5}}}});
  builder.add({.name = "h", .times = {{"cpu", Nanoseconds{1}}}, .inputs = {"saved", "passing"}});
  builder.add({.name = "g",
               .phase = Phase::backward,
               .times = {{"cpu", Nanoseconds{1}}},
               .inputs = {"saved"},
               .outputs = {{"gradient", Bytes{9}}}});
  ClusterSpec cluster = test::full_mesh(2);
  cluster.devices[0].memory = Bytes{185};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  MemoryLedger memory{problem};
  const GroupId f = problem.group(OpId{0}), g = problem.group(OpId{2});
  CHECK(memory.need(f).held == Bytes{173});      // 100 + 50 + 20 + 3
  CHECK(memory.need(f).transient == Bytes{12});  // 7 + 5
  CHECK(memory.need(g).held == Bytes{0});
  CHECK(memory.need(g).transient == Bytes{9});
  CHECK(memory.excess_with(f, DeviceId{0}) == Bytes{0});  // 173 + 12 = 185
  memory.take(f, DeviceId{0});
  CHECK(memory.excess_with(g, DeviceId{0}) == Bytes{0});  // 173 + max(12, 9)
  CHECK(memory.excess_with(f, DeviceId{0}) == Bytes{173});
  CHECK(memory.excess_with(f, DeviceId{1}) == Bytes{0});  // no limit
  memory.take(f, DeviceId{0});
  CHECK(memory.total_excess() == Bytes{173});
}

TEST_CASE("where no device has room the one with the least excess is left") {
  GraphBuilder builder;
  builder.add({.name = "a", .parameter_bytes = Bytes{10}, .times = {{"cpu", Nanoseconds{1}}}});
  ClusterSpec cluster = test::full_mesh(3);
  for (const auto& [device, bytes] : {std::pair{0, 4}, {1, 8}, {2, 8}})
    cluster.devices[static_cast<std::size_t>(device)].memory = Bytes{bytes};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  std::vector<DeviceId> left;
  MemoryLedger{problem}.narrow(GroupId{0}, std::vector{DeviceId{0}, DeviceId{1}, DeviceId{2}}, left);
  CHECK(left == std::vector{DeviceId{1}});
}
