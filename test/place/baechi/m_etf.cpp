#include "trainyard/place/baechi/m_etf.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "place/baechi/m_answers.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("m-ETF plans 3 for an op with two readers, all times one: a reader could start elsewhere no earlier") {
  // a on p0 [0,1], b on p0 [1,2]. c could start at 2 on p0, and on p1 after the transfer [1,2]: the lower id wins.
  const Problem problem = test::make_problem({{{1, 1}, {1, 1}, {1, 1}}, {{0, 1, 1}, {0, 2, 1}}});
  const Schedule schedule = m_etf(problem);
  CHECK(schedule.plan->makespan == Nanoseconds{3});
  CHECK(test::rows_of(schedule) == std::vector<Row>{{0, 0}, {0, 1}, {0, 2}});
}

TEST_CASE("m-ETF sends a tensor to a device once, and a device sends one at a time") {
  // a [0,2] on p0 makes x for b (10) and c (10), and y for d (1), of 3 bytes each. At 2 b starts on p0. c could start
  // on p1 at 2 + 3 = 5, and so could d on p2 if y were sent alone. c goes first: p0's channel is busy until 5, and y
  // arrives at 8.
  GraphBuilder builder;
  const auto time = [](std::int64_t t) { return std::vector<GivenTime>{{"cpu", Nanoseconds{t}}}; };
  builder.add({.name = "a", .times = time(2), .outputs = {{"x", Bytes{3}}, {"y", Bytes{3}}}});
  builder.add({.name = "b", .times = time(10), .inputs = {"x"}});
  builder.add({.name = "c", .times = time(10), .inputs = {"x"}});
  builder.add({.name = "d", .times = time(1), .inputs = {"y"}});
  builder.add({.name = "e", .times = time(1), .inputs = {"x"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(3))};
  // At 5 only d and e are left for p2, whose inputs y and x would arrive at 5 + 3 = 8. d is first, and x follows at 11.
  CHECK(test::rows_of(m_etf(problem)) == std::vector<Row>{{0, 0}, {0, 2}, {1, 5}, {2, 8}, {2, 11}});
}

TEST_CASE("m-ETF frees an output when its last reader is scheduled, so that a chain fits where its sum does not") {
  // A chain of four ops with outputs of 10 needs 20 at a time.
  test::Instance instance{{{1, 1}, {1, 1}, {1, 1}, {1, 1}}, {{0, 1, 10}, {1, 2, 10}, {2, 3, 10}}};
  const auto on = [&](std::int64_t capacity) {
    const Problem free = test::make_problem(instance);
    ClusterSpec cluster = free.cluster().spec();
    for (Device& device : cluster.devices) device.memory = Bytes{capacity};
    return Problem{free.graph(), make_cluster(std::move(cluster))};
  };
  CHECK(test::devices_of(m_etf(on(20))) == std::vector<std::size_t>{0, 0, 0, 0});
  // With 15, the second op has no room beside its input. It goes to the other device, and the third op back.
  CHECK(test::devices_of(m_etf(on(15), {.literal = true})) == std::vector<std::size_t>{0, 1, 0, 0});
}

TEST_CASE("m-ETF goes on where no device has memory, and the simulator says that it does not fit") {
  GraphBuilder builder;
  for (int i = 0; i < 3; ++i)
    builder.add({.name = "op" + std::to_string(i),
                 .parameter_bytes = Bytes{10},
                 .times = {{"cpu", Nanoseconds{1}}},
                 .after = i ? std::vector{"op" + std::to_string(i - 1)} : std::vector<std::string>{}});
  ClusterSpec cluster = test::full_mesh(2);
  for (Device& device : cluster.devices) device.memory = Bytes{12};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  const Schedule schedule = m_etf(problem);
  REQUIRE_NOTHROW(check_schedule(problem, schedule));
  CHECK_FALSE(simulate(problem, schedule).fits());
}

TEST_CASE("an op of no duration ends at once in m-ETF's plan, and what waits for it starts then") {
  // a 0, b 2 after a, c 0 after b, d 1 after c
  const Problem problem = test::make_problem({{{0}, {2}, {0}, {1}}, {{0, 1, 5}, {1, 2, 5}, {2, 3, 5}}});
  CHECK(test::rows_of(m_etf(problem)) == std::vector<Row>{{0, 0}, {0, 0}, {0, 2}, {0, 2}});
}

TEST_CASE("m-ETF's plan runs one op at a time on a device, each after its inputs, and repeats, on random problems") {
  Random random{11};
  for (int round = 0; round < test::rounds(100); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 30, .most_devices = 4});
    const Graph& graph = problem.graph();
    for (const bool literal : {false, true}) {
      const Schedule schedule = m_etf(problem, {.literal = literal});
      REQUIRE_NOTHROW(check_schedule(problem, schedule));
      CHECK(schedule == m_etf(problem, {.literal = literal}));
      const auto end = [&](OpId op) { return schedule.plan->start[op] + problem.duration(op, schedule.placement[op]); };
      for (const OpId op : problem.ops()) {
        CHECK(end(op) <= schedule.plan->makespan);
        for (const TensorId tensor : graph.inputs(op)) {
          const OpId producer = graph.producer(tensor);
          const DeviceId from = schedule.placement[producer], to = schedule.placement[op];
          const Nanoseconds crossing = from == to ? Nanoseconds{0} : problem.transfer_time(tensor, from, to);
          CHECK(schedule.plan->start[op] >= end(producer) + crossing);
        }
        for (const OpId earlier : graph.after(op)) CHECK(schedule.plan->start[op] >= end(earlier));
        for (const OpId other : problem.ops())
          if (other < op && schedule.placement[other] == schedule.placement[op])
            CHECK((schedule.plan->start[op] >= end(other) || schedule.plan->start[other] >= end(op)));
      }
    }
  }
}

TEST_CASE("m-ETF gives the placements and the schedules of Baechi's program, with and without groups") {
  test::for_baechi([](const Problem& problem, const nlohmann::json&, const nlohmann::json& answers) {
    const Schedule schedule = m_etf(problem, {.literal = true});
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    const auto& answer = answers.at("m_etf");
    if (answer.contains("error")) return;  // the program gives up if two ops of a group have no memory on their device
    CHECK(test::devices_of(schedule) == answer.at("placement").get<std::vector<std::size_t>>());
    CHECK(schedule.plan->makespan == Nanoseconds{answer.at("algorithm_makespan_us")});
    for (const OpId op : problem.ops()) CHECK(schedule.plan->start[op] == Nanoseconds{answer.at("start")[op.index()]});
  });
}
