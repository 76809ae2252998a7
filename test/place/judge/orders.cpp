#include "trainyard/place/judge/orders.hpp"

#include <doctest/doctest.h>

#include "place/instances.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/throughput/from_problem.hpp"

namespace trainyard {
namespace {

TEST_CASE("a placed bottom level counts the transfers that there are, and none on one device") {
  //     0 (2) --5--> 1 (3) --4--> 2 (1)      0 and 1 on p0, 2 on p1
  const Problem problem = test::make_problem({{{2, 2}, {3, 3}, {1, 1}}, {{0, 1, 5}, {1, 2, 4}}});
  const Placement placement{std::vector{DeviceId{0}, DeviceId{0}, DeviceId{1}}};
  const auto levels = placed_bottom_levels(problem, placement);
  CHECK(levels[OpId{2}] == Nanoseconds{1});
  CHECK(levels[OpId{1}] == Nanoseconds{8});   // 3 + 4 + 1
  CHECK(levels[OpId{0}] == Nanoseconds{10});  // 2 + 8: the tensor stays on p0
}

TEST_CASE("a placement with an op on no device has no order and no load") {
  const Problem problem = test::make_problem({{{2, 2}, {3, 3}}, {{0, 1, 5}}});
  const Placement whole(2, DeviceId{0}), unset(2), beyond(2, DeviceId{9});
  const Timeline timeline = simulate(problem, {.placement = whole});
  for (const Placement& placement : {Placement{}, unset, beyond}) {
    CHECK_THROWS_AS(placed_bottom_levels(problem, placement), InputError);
    CHECK_THROWS_AS(by_bottom_level(problem, placement), InputError);
    CHECK_THROWS_AS(from_the_end(problem, placement), InputError);
    CHECK_THROWS_AS(in_started_order(problem, placement, timeline), InputError);
    CHECK_THROWS_AS(device_loads(problem, placement), InputError);
    CHECK_THROWS_AS(max_load(problem, placement), InputError);
  }
  CHECK_THROWS_AS(in_started_order(problem, whole, Timeline{}), InputError);
}

TEST_CASE("the best order shows what fifo hides: the long chain goes first") {
  // Ops 0, 1 and 2, of 1 ns each on p0, are ready at once. Op 2 feeds op 3 (5 ns) on p1 over a transfer of 1. Fifo runs
  // 0, 1, 2: 3 + 1 + 5 = 9. With op 2 first: 1 + 1 + 5 = 7, while p0 needs 3.
  const Problem problem = test::make_problem({{{1, 1}, {1, 1}, {1, 1}, {5, 5}}, {{2, 3, 1}}});
  const Schedule fifo{.placement = Placement{std::vector{DeviceId{0}, DeviceId{0}, DeviceId{0}, DeviceId{1}}}};
  REQUIRE(simulate(problem, fifo).makespan == Nanoseconds{9});
  Evaluator evaluator{problem};
  const Ordered best = best_order(evaluator, fifo);
  CHECK(best.outcome == Outcome{Bytes{0}, Nanoseconds{7}});
  CHECK(best.schedule.placement == fifo.placement);
  CHECK(simulate(problem, best.schedule).makespan == Nanoseconds{7});
}

TEST_CASE("the best order is valid, keeps the placement, and is never worse than the schedule's own") {
  Random random{11};
  for (int round = 0; round < test::rounds(400); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 30});
    const Schedule schedule = test::random_schedule(random, problem);
    Evaluator evaluator{problem};
    const Ordered best = best_order(evaluator, schedule);
    REQUIRE_NOTHROW(check_schedule(problem, best.schedule));
    CHECK(best.schedule.placement == schedule.placement);
    CHECK(best.outcome <= test::outcome_of(problem, schedule));
    CHECK(best.outcome.makespan == test::naive_simulate(problem, best.schedule).makespan);
    for (const Schedule& other :
         {from_the_end(problem, schedule.placement), by_bottom_level(problem, schedule.placement)}) {
      REQUIRE_NOTHROW(check_schedule(problem, other));
      CHECK(best.outcome <= test::outcome_of(problem, other));
    }
  }
}

TEST_CASE("memory that cannot bind is told by what all ops and tensors hold together") {
  GraphBuilder builder;
  builder.add({.name = "a", .parameter_bytes = Bytes{10}, .workspace_bytes = Bytes{3}, .outputs = {{"x", Bytes{5}}}});
  builder.add({.name = "b", .workspace_bytes = Bytes{7}, .inputs = {"x"}});
  const Graph graph = std::move(builder).build();
  const auto binds = [&](std::int64_t capacity) {
    ClusterSpec cluster = test::full_mesh(2);
    for (Device& device : cluster.devices) device.memory = Bytes{capacity};
    return memory_may_bind(Problem{graph, make_cluster(std::move(cluster))});
  };
  CHECK(binds(21));
  CHECK_FALSE(binds(23));  // 10 + 5 + the larger workspace, 7
}

}  // namespace
}  // namespace trainyard
