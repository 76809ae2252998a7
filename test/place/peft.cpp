#include "trainyard/place/peft.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "place/instances.hpp"
#include "place/reference_answers.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("PEFT plans 122 for the ten tasks of Arabnejad and Barbosa, each start as published") {
  const Schedule schedule = peft(test::make_problem(test::arabnejad()));
  CHECK(schedule.plan->makespan == Nanoseconds{122});
  CHECK(test::rows_of(schedule) ==
        std::vector<Row>{{0, 0}, {0, 29}, {0, 51}, {0, 22}, {2, 35}, {1, 29}, {0, 83}, {1, 54}, {2, 81}, {1, 106}});
}

TEST_CASE("PEFT plans 85 for the ten tasks of Topcuoglu") {
  CHECK(peft(test::make_problem(test::topcuoglu())).plan->makespan == Nanoseconds{85});
}

TEST_CASE("PEFT lets an op finish later where what follows is then sooner") {
  // a 5 | 6, then b 100 | 1 behind a transfer of 50: OCT(a, p0) = min(100, 1 + 50) = 51, OCT(a, p1) = 1.
  // p0: 5 + 51 = 56, p1: 6 + 1 = 7. HEFT would take p0 for a.
  const Problem problem = test::make_problem({{{5, 6}, {100, 1}}, {{0, 1, 50}}});
  CHECK(test::rows_of(peft(problem)) == std::vector<Row>{{1, 0}, {1, 6}});
}

TEST_CASE("devices that are alike share a column of the table and ties go to the first of them") {
  // two independent ops of 3: the first on p0, the second, which would wait there, on p1
  GraphBuilder builder;
  for (const char* name : {"a", "b"}) builder.add({.name = name, .times = {{"cpu", Nanoseconds{3}}}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(3))};
  CHECK(test::rows_of(peft(problem)) == std::vector<Row>{{0, 0}, {1, 0}});
}

TEST_CASE("PEFT gives the reference answer of its example") {
  test::for_one("answers/peft10.json", [](const Problem& problem, const nlohmann::json& entry, double scale) {
    test::check_answer(problem, peft(problem), entry.at("PEFT"), scale);
  });
}
