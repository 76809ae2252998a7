#include "trainyard/place/celeritas/celeritas.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("the order follows the longest chain to its end before it turns to another") {
  // 0 -> 2 -> 4 of 5 each, 1 -> 3 of 3 each, both before 5.
  const Problem problem =
      test::make_problem({{{5}, {3}, {5}, {3}, {5}, {1}}, {{0, 2, 1}, {2, 4, 1}, {1, 3, 1}, {4, 5, 1}, {3, 5, 1}}});
  CHECK(critical_depth_first(problem, upward_ranks(problem, MeanCosts{problem})) ==
        std::vector<OpId>{OpId{0}, OpId{2}, OpId{4}, OpId{1}, OpId{3}, OpId{5}});
}

TEST_CASE("every op comes after all that it depends on") {
  Random random{2208};
  for (int round = 0; round < test::rounds(100); ++round) {
    const Problem problem = test::random_problem(random, {.most_ops = 25});
    const Graph& graph = problem.graph();
    const std::vector<OpId> order = critical_depth_first(problem, upward_ranks(problem, MeanCosts{problem}));
    REQUIRE(order.size() == problem.op_count());
    IdMap<OpId, std::size_t> at(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) at[order[i]] = i;
    for (const OpId op : problem.ops()) {
      for (const TensorId tensor : graph.inputs(op)) CHECK(at[graph.producer(tensor)] < at[op]);
      for (const OpId earlier : graph.after(op)) CHECK(at[earlier] < at[op]);
    }
  }
}

TEST_CASE("ops of a cluster share a device, clusters go where they end first") {
  // Two chains of two ops of 4, with tensors of 9 in them. A cluster may have half of the work, 8: one for each chain.
  const Problem problem = test::make_problem({{{4, 4}, {4, 4}, {4, 4}, {4, 4}}, {{0, 1, 9}, {2, 3, 9}}});
  const Schedule schedule = celeritas(problem, {.clusters = 1});
  CHECK(test::rows_of(schedule) == std::vector<Row>{{0, 0}, {0, 4}, {1, 0}, {1, 4}});
  CHECK(schedule.plan->makespan == Nanoseconds{8});
}
