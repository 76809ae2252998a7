#include "trainyard/place/list/ippts.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/list/optimistic_costs.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("PCM of the ten tasks of Topcuoglu, from the exit up") {
  // PCM(10, p) = (21, 7, 16). PCM(9, 1) = min(21 + 21 + 18, 7 + 7 + 12 + 13, 16 + 16 + 20 + 13) = 39, and on p2 7 + 7 +
  // 12 = 26. PCM(8, p) = min of 21 + 21 + 5, 7 + 7 + 11 (+ 11), ... = (36, 25, 36). If all stays on p2: PCM(4, 2) =
  // max(25 + 11 + 8, 26 + 12 + 8) = 46, against 46 + 23 from elsewhere.
  const Problem problem = test::make_problem(test::topcuoglu());
  const MeanCosts means{problem};
  const OptimisticCosts costs{problem, means, OptimisticCosts::Kind::predicted};
  const std::vector<std::vector<std::int64_t>> expected{{97, 92, 100}, {70, 57, 73}, {64, 57, 73}, {69, 46, 69},
                                                        {64, 51, 64},  {54, 52, 59}, {46, 29, 43}, {36, 25, 36},
                                                        {39, 26, 39},  {21, 7, 16}};
  for (const OpId op : problem.ops())
    for (const DeviceId device : problem.devices())
      CHECK(static_cast<std::int64_t>(costs.at(op, device) / means.scale()) == expected[op.index()][device.index()]);
}

TEST_CASE("IPPTS plans 95 for the ten tasks of Topcuoglu and 122 for those of Arabnejad and Barbosa") {
  // Priorities of the first: (97 + 92 + 100) / 3 x 5 successors, (70 + 57 + 73) / 3 x 2 = 133.3 before (69 + 46 + 69) /
  // 3 x 2 = 122.7, then 64.7, 59.7, 55, 39.3, 34.7, 32.3 and 0.
  const Schedule one = ippts(test::make_problem(test::topcuoglu()));
  CHECK(one.plan->makespan == Nanoseconds{95});
  CHECK(test::rows_of(one) ==
        std::vector<Row>{{1, 0}, {1, 16}, {0, 28}, {1, 35}, {2, 27}, {0, 39}, {1, 62}, {1, 77}, {1, 50}, {1, 88}});
  const Schedule two = ippts(test::make_problem(test::arabnejad()));
  CHECK(two.plan->makespan == Nanoseconds{122});
  CHECK(test::rows_of(two) ==
        std::vector<Row>{{0, 0}, {0, 22}, {0, 51}, {0, 44}, {2, 35}, {1, 29}, {0, 83}, {1, 62}, {2, 74}, {1, 106}});
}
