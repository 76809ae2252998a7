#include "trainyard/place/list/getf.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/place/list/etf.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("devices in groups by factors of gamma = log 4 / log log 4 = 2 from 1/4 up, slower ones in none") {
  // Speeds 1, 1, 1/4 and 1/8 of the fastest.
  const SpeedGroups groups = speed_groups(test::make_problem({{{8, 8, 32, 64}}, {}}));
  CHECK(groups.of.values() == std::vector<std::size_t>{0, 0, 1, SpeedGroups::kNone});
  CHECK(groups.total == std::vector<double>{2, 0.25});
  CHECK(groups.slowest == std::vector<double>{1, 0.25});
}

TEST_CASE("a long chain stays on the fast device, what has time goes to the group of most speed") {
  // Speeds 1, 1/2, 1/2, 1/2: groups with total speeds of 1 and 3/2. a -> b of 4 each, c of 1: T = max(8, 9 / 2.5) = 8.
  // a and b need a speed of 8/8 = 1, c 1/8.
  const Problem problem = test::make_problem({{{4, 8, 8, 8}, {4, 8, 8, 8}, {1, 2, 2, 2}}, {{0, 1, 5}}});
  CHECK(speed_group_of_ops(problem, speed_groups(problem)).values() == std::vector<std::size_t>{0, 0, 1});
  CHECK(test::rows_of(getf(problem)) == std::vector<Row>{{0, 0}, {0, 4}, {1, 0}});
}

TEST_CASE("no chain takes longer than T with each op at the speed of its group") {
  Random random{2020};
  for (int round = 0; round < test::rounds(200); ++round) {
    CAPTURE(round);
    const auto devices = static_cast<std::size_t>(random.between(2, 6));
    std::vector<std::int64_t> slowness(devices, 1);
    for (std::size_t d = 1; d < devices; ++d) slowness[d] = random.between(1, 9);
    test::Instance instance;
    const auto count = static_cast<std::size_t>(random.between(1, 12));
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t work = random.between(1, 20);
      instance.times.emplace_back();
      for (const std::int64_t slow : slowness) instance.times.back().push_back(work * slow);
      for (std::size_t j = 0; j < i; ++j)
        if (random.below(3) == 0) instance.edges.push_back({j, i, 1});
    }
    const Problem problem = test::make_problem(instance);
    const SpeedGroups groups = speed_groups(problem);
    const auto of = speed_group_of_ops(problem, groups);
    std::vector<double> fast(count, 0), slow(count, 0);
    double work = 0, speed = 0;
    for (const double each : groups.total) speed += each;
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto& edge : instance.edges)
        if (edge.to == i) {
          fast[i] = std::max(fast[i], fast[edge.from]);
          slow[i] = std::max(slow[i], slow[edge.from]);
        }
      const auto time = static_cast<double>(instance.times[i][0]);
      work += time;
      fast[i] += time;
      slow[i] += time / groups.slowest[of[OpId{i}]];
    }
    const double least = std::max(work / speed, *std::ranges::max_element(fast));
    CHECK(*std::ranges::max_element(slow) <= least * (1 + 1e-9));
  }
}

TEST_CASE("on devices that are alike GETF is ETF") {
  Random random{2021};
  for (int round = 0; round < test::rounds(100); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.plain_cluster = true});
    if (problem.column_count() > 1) continue;
    CHECK(getf(problem) == etf(problem));
  }
}
