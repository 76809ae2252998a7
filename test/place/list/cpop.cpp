#include "trainyard/place/list/cpop.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "place/instances.hpp"
#include "place/reference_answers.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("downward ranks of the ten-task example of Topcuoglu are the published ones") {
  const Problem problem = test::make_problem(test::topcuoglu());
  const auto ranks = downward_ranks(problem, MeanCosts{problem});
  // in sixths: 0, 31, 25, 22, 24, 27, 62 1/3, 66 2/3, 63 2/3, 93 1/3
  const std::vector<std::int64_t> expected{0, 186, 150, 132, 144, 162, 374, 400, 382, 560};
  for (const OpId op : problem.ops()) CHECK(static_cast<std::int64_t>(ranks[op]) == expected[op.index()]);
}

TEST_CASE("CPOP plans 86 for the ten tasks of Topcuoglu: tasks 1, 2, 9 and 10 on the second processor") {
  const Schedule schedule = cpop(test::make_problem(test::topcuoglu()));
  CHECK(schedule.plan->makespan == Nanoseconds{86});
  CHECK(test::rows_of(schedule) ==
        std::vector<Row>{{1, 0}, {1, 16}, {0, 28}, {2, 25}, {1, 35}, {2, 42}, {0, 39}, {2, 54}, {1, 65}, {1, 79}});
}

TEST_CASE("CPOP plans 167 for the ten tasks of Arabnejad and Barbosa") {
  CHECK(cpop(test::make_problem(test::arabnejad())).plan->makespan == Nanoseconds{167});
}

TEST_CASE("an op of the critical path that the critical device cannot run goes where it finishes first") {
  // The graph is the chain a -> b -> c. p0 runs a in 4 and b in 3; p1 runs a and c in 10 each. Each can run two ops of
  // the critical path. p0 takes 4 + 3 = 7 for these, p1 10 + 10 = 20: p0 is the critical device.
  GraphBuilder builder;
  const auto at = [](const char* device, std::int64_t time) { return GivenTime{device, Nanoseconds{time}}; };
  builder.add({.name = "a", .times = {at("p0", 4), at("p1", 10)}, .outputs = {{"x", Bytes{1}}}});
  builder.add(
      {.name = "b", .device_kinds = {"p0"}, .times = {at("p0", 3)}, .inputs = {"x"}, .outputs = {{"y", Bytes{1}}}});
  builder.add({.name = "c", .device_kinds = {"p1"}, .times = {at("p1", 10)}, .inputs = {"y"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const Schedule schedule = cpop(problem);
  CHECK(test::rows_of(schedule) == std::vector<Row>{{0, 0}, {0, 4}, {1, 8}});  // c on p1: 4 + 3, and 1 to cross
}

TEST_CASE("the colocation group of an op of the critical path goes to the critical device before that op is taken") {
  // a (1) -> c (9) is critical: 10 on p0, 100 on p1. b is ready before c and faster on p1, but in a group with c.
  GraphBuilder builder;
  const auto times = [](std::int64_t p0, std::int64_t p1) {
    return std::vector<GivenTime>{{"p0", Nanoseconds{p0}}, {"p1", Nanoseconds{p1}}};
  };
  builder.add({.name = "a", .times = times(1, 10), .outputs = {{"x", Bytes{0}}}});
  builder.add({.name = "b", .colocate = "g", .times = times(3, 1)});
  builder.add({.name = "c", .colocate = "g", .times = times(9, 90), .inputs = {"x"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  const Schedule schedule = cpop(problem);
  CHECK(schedule.placement == Placement{std::vector<DeviceId>(3, DeviceId{0})});
}

TEST_CASE("CPOP gives the reference answers of fourteen small published instances") {
  test::for_hetero_small([](const Problem& problem, const nlohmann::json& entry, double scale) {
    test::check_answer(problem, cpop(problem), entry.at("CPOP"), scale);
  });
}

TEST_CASE("CPOP gives the textbook answers of sixty instances with speeds and bandwidths, with and without insertion") {
  test::for_saga([](const Problem& problem, const nlohmann::json& entry, double scale) {
    const auto& answers = entry.at("textbook");
    test::check_answer(problem, cpop(problem), answers.at("CPOP"), scale);
    if (answers.contains("CPOP_no_insertion") && answers["CPOP_no_insertion"].is_object())
      test::check_answer(problem, cpop(problem, {.insertion = false}), answers["CPOP_no_insertion"], scale);
  });
}

TEST_CASE("CPOP gives the reference answers of the two examples") {
  for (const char* path : {"answers/topcuoglu10.json", "answers/peft10.json"})
    test::for_one(path, [](const Problem& problem, const nlohmann::json& entry, double scale) {
      test::check_answer(problem, cpop(problem), entry.at("CPOP"), scale);
    });
}
