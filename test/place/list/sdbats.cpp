#include "trainyard/place/list/sdbats.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "place/instances.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("SDBATS without a second entry task plans 76 for the ten tasks of Topcuoglu") {
  // sigma of task 10 (21, 7, 16): the squares of 19/3, -23/3 and 4/3 sum to 302/3, and sqrt(302/3 / 3) = 5.79. Task 9
  // (18, 12, 20) has 3.40, task 8 (5, 11, 14) 3.74, task 7 (7, 15, 11) 3.27. rank(10) = 5.79, rank(9) = 3.40 + 13 +
  // 5.79 = 22.19, rank(8) = 3.74 + 11 + 5.79 = 20.53, rank(7) = 3.27 + 17 + 5.79 = 26.06. Then task 6 (2.87 + 15 +
  // 20.53 = 38.40) is before task 5 (1.25 + 13 + 22.19 = 36.44), unlike in HEFT, and task 7 before 9 before 8.
  const Schedule schedule = sdbats(test::make_problem(test::topcuoglu()));
  CHECK(test::rows_of(schedule) ==
        std::vector<Row>{{2, 0}, {0, 27}, {2, 9}, {1, 18}, {1, 26}, {2, 28}, {2, 37}, {0, 53}, {1, 56}, {1, 69}});
  CHECK(schedule.plan->makespan == Nanoseconds{76});
}

TEST_CASE("an op whose device matters goes before longer ones that are the same everywhere") {
  // sigma: a 0 (20 on both), b 4 (2, 10). b takes p0 first, a p1; HEFT takes a first, to p0.
  const Problem problem = test::make_problem({{{20, 20}, {2, 10}}, {}});
  CHECK(test::rows_of(sdbats(problem)) == std::vector<Row>{{1, 0}, {0, 0}});
}
