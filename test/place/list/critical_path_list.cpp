#include "trainyard/place/list/critical_path_list.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "place/instances.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/list/heft.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("static levels are the longest chains of mean durations, without transfers") {
  // a 2 | 4 (mean 3) -> b 5 -> c 1, and a -> c: levels c 1, b 6, a 9
  const Problem problem = test::make_problem({{{2, 4}, {5, 5}, {1, 1}}, {{0, 1, 70}, {1, 2, 70}, {0, 2, 70}}});
  const MeanCosts means{problem};
  const auto level = static_levels(problem, means);
  const std::vector<std::int64_t> expected{9, 6, 1};
  for (const OpId op : problem.ops())
    CHECK(static_cast<std::int64_t>(level[op]) == expected[op.index()] * means.scale());
}

TEST_CASE("the op of the longest chain goes first, whatever waits beside it") {
  // x (6) is alone; a (1) -> b (1) -> c (5) with transfers of 9. Levels 6, 7, 6, 5: a, b and c on p0, x on p1.
  const Problem problem = test::make_problem({{{6, 6}, {1, 1}, {1, 1}, {5, 5}}, {{1, 2, 9}, {2, 3, 9}}});
  CHECK(test::rows_of(critical_path_list(problem)) == std::vector<Row>{{1, 0}, {0, 0}, {0, 1}, {0, 2}});
}

TEST_CASE("transfer times decide the order of bottom levels, and not that of static levels") {
  // One device can run all. a 1 -> c 1 with a transfer of 9; b 3. Static: a 2, b 3; bottom: a 11, b 3.
  // Mean transfer times count the pair {p0, p1}, though p1 can run none of the ops.
  GraphBuilder builder;
  const std::vector<GivenTime> one{{"p0", Nanoseconds{1}}}, three{{"p0", Nanoseconds{3}}};
  builder.add({.name = "a", .device_kinds = {"p0"}, .times = one, .outputs = {{"x", Bytes{9}}}});
  builder.add({.name = "b", .device_kinds = {"p0"}, .times = three});
  builder.add({.name = "c", .device_kinds = {"p0"}, .times = one, .inputs = {"x"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  CHECK(test::rows_of(critical_path_list(problem)) == std::vector<Row>{{0, 3}, {0, 0}, {0, 4}});
  CHECK(test::rows_of(critical_path_list(problem, {.level = CriticalPathOptions::Level::bottom})) ==
        std::vector<Row>{{0, 0}, {0, 1}, {0, 4}});
}

TEST_CASE("with bottom levels and insertion it is HEFT") {
  for (const test::Instance& instance : {test::topcuoglu(), test::arabnejad()}) {
    const Problem problem = test::make_problem(instance);
    CHECK(critical_path_list(problem, {.level = CriticalPathOptions::Level::bottom, .insertion = true}) ==
          heft(problem));
  }
}
