#include "trainyard/place/list/heft.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "place/instances.hpp"
#include "place/reference_answers.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("upward ranks of the ten-task example of Topcuoglu are the published ones, and equal ranks are equal") {
  const Problem problem = test::make_problem(test::topcuoglu());
  const MeanCosts means{problem};
  CHECK(means.scale() == 6);  // 3 devices, 6 ordered pairs
  const auto ranks = upward_ranks(problem, means);
  // in sixths: 108, 77, 80, 80, 69, 63 1/3, 42 2/3, 35 2/3, 44 1/3, 14 2/3
  const std::vector<std::int64_t> expected{648, 462, 480, 480, 414, 380, 256, 214, 266, 88};
  for (const OpId op : problem.ops()) CHECK(static_cast<std::int64_t>(ranks[op]) == expected[op.index()]);
  // Tasks 3 and 4 (ids 2 and 3) tie at 80: the lower id first.
  const auto order = by_descending_rank(problem, ranks);
  CHECK(order ==
        std::vector<OpId>{OpId{0}, OpId{2}, OpId{3}, OpId{1}, OpId{4}, OpId{5}, OpId{8}, OpId{6}, OpId{7}, OpId{9}});
}

TEST_CASE("HEFT plans 80 for the ten tasks of Topcuoglu, each start as published") {
  const Problem problem = test::make_problem(test::topcuoglu());
  const Schedule schedule = heft(problem);
  CHECK(schedule.plan->makespan == Nanoseconds{80});
  CHECK(test::rows_of(schedule) ==
        std::vector<Row>{{2, 0}, {0, 27}, {2, 9}, {1, 18}, {2, 28}, {1, 26}, {2, 38}, {0, 57}, {1, 56}, {1, 73}});
  CHECK(heft(problem, {.insertion = false}).plan->makespan == Nanoseconds{80});
}

TEST_CASE("HEFT plans 133 for the ten tasks of Arabnejad and Barbosa") {
  const Schedule schedule = heft(test::make_problem(test::arabnejad()));
  CHECK(schedule.plan->makespan == Nanoseconds{133});
  CHECK(test::rows_of(schedule) ==
        std::vector<Row>{{1, 0}, {0, 38}, {1, 48}, {2, 52}, {1, 21}, {2, 28}, {1, 75}, {0, 67}, {2, 105}, {0, 120}});
}

TEST_CASE("where transfers never wait for each other the simulator runs the plan, in strict order, to the nanosecond") {
  const Problem problem = test::make_problem(test::topcuoglu(), Sharing::none);
  const Schedule schedule = heft(problem, {.order = PlanOrder::strict});
  check_schedule(problem, schedule);
  const Timeline timeline = simulate(problem, schedule);
  CHECK(timeline.makespan == Nanoseconds{80});
  for (const OpId op : problem.ops()) CHECK(timeline.ops[op].start == schedule.plan->start[op]);
}

TEST_CASE("an op goes into a gap that is long enough, and without insertion behind everything") {
  // p1 is fast for b alone. c waits on p0 for b's tensor, until 3 + 4 = 7, so that p0 has a gap from a's end at 2.
  // Ranks: b 51.5 + 4 + 54, a 51 + 1 + 54, c 54, e 53, d 51.5.
  const Problem problem =
      test::make_problem({{{2, 100}, {100, 3}, {8, 100}, {3, 100}, {6, 100}}, {{0, 2, 1}, {1, 2, 4}}});
  // The gap of 5 is too short for e (6), which goes behind c, to 7 + 8 = 15; d (3) goes into it.
  CHECK(test::rows_of(heft(problem)) == std::vector<Row>{{0, 0}, {1, 0}, {0, 7}, {0, 2}, {0, 15}});
  // d goes behind e, to 15 + 6 = 21.
  CHECK(test::rows_of(heft(problem, {.insertion = false})) ==
        std::vector<Row>{{0, 0}, {1, 0}, {0, 7}, {0, 21}, {0, 15}});
}

TEST_CASE("one device takes all ops in rank order and nothing is transferred") {
  // A chain of 1 + 2 and a single op of 4: ranks 3, 2, 4
  const Problem problem = test::make_problem({{{1}, {2}, {4}}, {{0, 1, 50}}});
  const Schedule schedule = heft(problem);
  CHECK(test::rows_of(schedule) == std::vector<Row>{{0, 4}, {0, 5}, {0, 0}});
  CHECK(schedule.plan->makespan == Nanoseconds{7});
}

TEST_CASE("where the plan's account of memory is too low HEFT plans again with less") {
  // a and b hold 40 bytes each and are fast on p0. The ledger counts 80 of its 100 bytes, but 30 more arrive from d.
  GraphBuilder builder;
  builder.add({.name = "d", .device_kinds = {"p1"}, .times = {{"cpu", Nanoseconds{1}}}, .outputs = {{"t", Bytes{30}}}});
  for (const char* name : {"a", "b"})
    builder.add({.name = name,
                 .parameter_bytes = Bytes{40},
                 .times = {{"p0", Nanoseconds{1}}, {"p1", Nanoseconds{90}}},
                 .inputs = {"t"}});
  ClusterSpec cluster = test::full_mesh(2);
  for (Device& device : cluster.devices) device.memory = Bytes{100};
  const Problem problem{std::move(builder).build(), make_cluster(std::move(cluster))};
  const Schedule schedule = heft(problem);
  CHECK(simulate(problem, schedule).fits());
  CHECK(schedule.placement[OpId{1}] != schedule.placement[OpId{2}]);
}

TEST_CASE("HEFT gives the reference answers of fourteen small published instances") {
  test::for_hetero_small([](const Problem& problem, const nlohmann::json& entry, double scale) {
    test::check_answer(problem, heft(problem), entry.at("HEFT"), scale);
    if (entry.contains("HEFT_no_insertion"))
      CHECK(heft(problem, {.insertion = false}).plan->makespan ==
            Nanoseconds{test::scaled(entry["HEFT_no_insertion"], scale)});
  });
}

TEST_CASE("HEFT gives the textbook answers of sixty instances with speeds and bandwidths, with and without insertion") {
  test::for_saga([](const Problem& problem, const nlohmann::json& entry, double scale) {
    const auto& answers = entry.at("textbook");
    test::check_answer(problem, heft(problem), answers.at("HEFT"), scale);
    if (answers.at("HEFT_no_insertion").is_object())
      test::check_answer(problem, heft(problem, {.insertion = false}), answers["HEFT_no_insertion"], scale);
  });
}
