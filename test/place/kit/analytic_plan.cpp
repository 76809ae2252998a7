#include "trainyard/place/kit/analytic_plan.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "place/instances.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

TEST_CASE("an op waits for what arrives from other devices, and takes the earliest slot behind it") {
  const Problem problem = test::make_problem({{{4, 9}, {3, 3}}, {{0, 1, 5}}});
  AnalyticPlan plan{problem};
  const auto first = plan.earliest_finish(OpId{0});
  CHECK(first.device == DeviceId{0});
  plan.place(OpId{0}, first);
  CHECK(plan.earliest_slot(OpId{1}, DeviceId{0}).start == Nanoseconds{4});
  CHECK(plan.earliest_slot(OpId{1}, DeviceId{1}).start == Nanoseconds{9});  // 4 + 5
  plan.place(OpId{1}, plan.earliest_finish(OpId{1}));
  CHECK(plan.schedule().plan->makespan == Nanoseconds{7});
}

TEST_CASE("the first op of a colocation group decides for all of it, among the devices that can run all of it") {
  GraphBuilder builder;
  builder.add({.name = "a", .colocate = "g", .times = {{"cpu", Nanoseconds{5}}, {"p0", Nanoseconds{1}}}});
  builder.add({.name = "b", .colocate = "g", .device_kinds = {"p1", "p2"}, .times = {{"cpu", Nanoseconds{5}}}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(3))};
  AnalyticPlan plan{problem};
  const auto slot = plan.earliest_finish(OpId{0});
  CHECK(slot.device == DeviceId{1});  // p0 cannot run b; 5 on both p1 and p2: the lower id
  plan.place(OpId{0}, slot);
  CHECK(plan.candidates(OpId{1}).size() == 1);
  CHECK(plan.candidates(OpId{1}).front() == DeviceId{1});
}

TEST_CASE("a device is taken for its gap after each op that takes time") {
  GraphBuilder builder;
  builder.add({.name = "a", .times = {{"cpu", Nanoseconds{5}}}});
  builder.add({.name = "b", .times = {{"cpu", Nanoseconds{5}}}});
  ClusterSpec cluster = test::full_mesh(1);
  cluster.devices[0].gap = Nanoseconds{2};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  AnalyticPlan plan{problem};
  plan.place(OpId{0}, plan.earliest_finish(OpId{0}));
  CHECK(plan.earliest_finish(OpId{1}).start == Nanoseconds{7});
}

TEST_CASE("a forward tensor that a backward op reads on another device is counted there, once") {
  GraphBuilder builder;
  builder.add(
      {.name = "f", .device_kinds = {"p1"}, .times = {{"cpu", Nanoseconds{1}}}, .outputs = {{"saved", Bytes{60}}}});
  for (const char* name : {"g1", "g2"})
    builder.add({.name = name,
                 .phase = Phase::backward,
                 .device_kinds = {"p0"},
                 .times = {{"cpu", Nanoseconds{1}}},
                 .inputs = {"saved"}});
  builder.add({.name = "w", .parameter_bytes = Bytes{40}, .times = {{"p0", Nanoseconds{1}}, {"p2", Nanoseconds{9}}}});
  builder.add({.name = "v", .parameter_bytes = Bytes{1}, .times = {{"p0", Nanoseconds{1}}, {"p2", Nanoseconds{9}}}});
  ClusterSpec cluster = test::full_mesh(3);
  cluster.devices[0].memory = Bytes{100};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  AnalyticPlan plan{problem};
  for (std::size_t op = 0; op < 4; ++op) plan.place(OpId{op}, plan.earliest_finish(OpId{op}));
  CHECK(plan.schedule().placement[OpId{3}] == DeviceId{0});  // 60 + 40 = 100
  CHECK_FALSE(plan.memory_bound());
  CHECK(plan.earliest_finish(OpId{4}).device == DeviceId{2});  // 101
  CHECK(plan.memory_bound());
}
