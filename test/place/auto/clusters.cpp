#include "trainyard/place/auto/clusters.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"

namespace trainyard {
namespace {

TEST_CASE("clusters join the ends of the largest tensors as long as their time together is small") {
  // A chain of 128 ops of 1 ns, in which every second tensor is large. Two devices have 64 ns of work each. Clusters of
  // up to 1/64 of that are single ops; those of up to 1/16 take 4 ns, those of up to 1/4 16 ns.
  test::Instance chain;
  for (std::size_t i = 0; i < 128; ++i) {
    chain.times.push_back({1, 1});
    if (i > 0) chain.edges.push_back({i - 1, i, i % 2 == 1 ? 100 : 1});
  }
  const auto levels = cluster_levels(test::make_problem(chain));
  REQUIRE(levels.size() >= 3);
  CHECK(levels[0].size() == 128);
  CHECK(levels[1].size() == 32);  // pairs over the large tensors first, then two pairs each
  CHECK(levels[1].of[OpId{0}] == levels[1].of[OpId{1}]);
  CHECK(levels[1].of[OpId{0}] == levels[1].of[OpId{3}]);
  CHECK(levels[1].of[OpId{3}] != levels[1].of[OpId{4}]);
  CHECK(levels[2].size() == 8);
}

TEST_CASE("every level holds each op once, keeps colocation groups whole, and names the devices that run all of it") {
  Random random{5};
  for (int round = 0; round < test::rounds(200); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 40});
    const auto levels = cluster_levels(problem);
    REQUIRE(!levels.empty());
    CHECK(levels.front().size() == problem.group_count());
    for (const Clusters& level : levels) {
      std::size_t ops = 0;
      for (std::size_t c = 0; c < level.size(); ++c) {
        const ClusterId cluster{c};
        ops += level.ops[cluster].size();
        for (const OpId op : level.ops[cluster]) CHECK(level.of[op] == cluster);
        for (const DeviceId device : problem.devices())
          CHECK(std::ranges::binary_search(level.devices[cluster], device) ==
                std::ranges::all_of(level.ops[cluster], [&](OpId op) { return problem.can_run(op, device); }));
      }
      CHECK(ops == problem.op_count());
      for (const GroupId group : problem.groups())
        for (const OpId op : problem.group_ops(group))
          CHECK(level.of[op] == level.of[problem.group_ops(group).front()]);
    }
  }
}

}  // namespace
}  // namespace trainyard
