#include "trainyard/place/list/dsc.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

std::int64_t unscaled(ScaledTime time, const MeanCosts& means) {
  return static_cast<std::int64_t>(time / means.scale());
}

DscClusters clusters_of(const Problem& problem) { return dsc_clusters(problem, MeanCosts{problem}); }

std::vector<std::size_t> numbers(const DscClusters& found) {
  std::vector<std::size_t> list;
  for (const ClusterId cluster : found.of) list.push_back(cluster.index());
  return list;
}

/// Problem whose ops take the same time on each of two devices.
Problem uniform(const std::vector<std::int64_t>& times, std::vector<test::Instance::Edge> edges) {
  test::Instance instance{.times = {}, .edges = std::move(edges)};
  for (const std::int64_t time : times) instance.times.push_back({time, time});
  return test::make_problem(instance);
}

/// Least start of the last op of a join, over all sets of predecessors that share its cluster.
std::int64_t best_join(const std::vector<std::int64_t>& times, const std::vector<std::int64_t>& transfers) {
  std::int64_t best = INT64_MAX;
  for (std::size_t set = 0; set < std::size_t{1} << times.size(); ++set) {
    std::int64_t with = 0, arrives = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (set >> i & 1)
        with += times[i];
      else
        arrives = std::max(arrives, times[i] + transfers[i]);
    }
    best = std::min(best, std::max(with, arrives));
  }
  return best;
}

}  // namespace

TEST_CASE("a chain whose transfers take time is one cluster") {
  const Problem problem = uniform({1, 2, 3}, {{0, 1, 5}, {1, 2, 5}});
  const DscClusters found = clusters_of(problem);
  CHECK(found.count == 1);
  CHECK(unscaled(found.makespan, MeanCosts{problem}) == 6);
}

TEST_CASE("of a fork the branch that dominates stays, and others where they would otherwise wait for longer") {
  // a (1) feeds b (4), c (3) and d (2) over 2 each; bottom levels b 4, c 3, d 2. b stays with a, [1,5]. c starts at 3
  // on its own and at 5 after b, so it is on its own; d too. Makespan 6 (c [3,6]).
  const Problem problem = uniform({1, 4, 3, 2}, {{0, 1, 2}, {0, 2, 2}, {0, 3, 2}});
  const DscClusters found = clusters_of(problem);
  CHECK(numbers(found) == std::vector<std::size_t>{0, 0, 1, 2});
  CHECK(unscaled(found.makespan, MeanCosts{problem}) == 6);
}

TEST_CASE("the predecessors of a join are moved to it as long as that brings it forward") {
  // a (2), b (2) and c (2) feed x over 6, 3 and 1. On its own, x starts at 8; with a at 5 (b's 2 + 3); with a and b at
  // 4 (2 + 2; c has arrived at 3); with all three at 6.
  const Problem problem = uniform({2, 2, 2, 1}, {{0, 3, 6}, {1, 3, 3}, {2, 3, 1}});
  const DscClusters found = clusters_of(problem);
  CHECK(numbers(found) == std::vector<std::size_t>{0, 0, 1, 0});
  CHECK(unscaled(found.makespan, MeanCosts{problem}) == 5);
}

TEST_CASE("a predecessor that something else follows too is not moved") {
  // As above without c, but y (1) follows b too. x starts at 5 with a; with a and b it would start at 4.
  const Problem problem = uniform({2, 2, 1, 1}, {{0, 2, 6}, {1, 2, 3}, {1, 3, 1}});
  CHECK(numbers(clusters_of(problem)) == std::vector<std::size_t>{0, 1, 0, 1});
}

TEST_CASE("an op does not go behind the cluster that a more urgent, partly free op will need") {
  // a (1) feeds x (5) and y (20) over 9 each; b (8) feeds y over 1. a is taken first (priority 1 + 9 + 20 = 30). y is
  // then partly free with 10 + 20 = 30; b has priority 8 + 1 + 20 = 29, and x 10 + 5 = 15. b is on its own, [0,8]. Then
  // y is free: it starts at 9 after a (b's 8 + 1), at 10 on its own. x is last: it would start at 29 after a and y, and
  // at 10 on its own.
  const Problem problem = uniform({1, 5, 20, 8}, {{0, 1, 9}, {0, 2, 9}, {3, 2, 1}});
  const DscClusters found = clusters_of(problem);
  CHECK(numbers(found) == std::vector<std::size_t>{0, 1, 0, 2});
  CHECK(unscaled(found.makespan, MeanCosts{problem}) == 29);
}

TEST_CASE("joins are clustered as well as can be, as the paper proves") {
  Random random{1994};
  for (int round = 0; round < test::rounds(300); ++round) {
    const auto count = static_cast<std::size_t>(random.between(1, 8));
    std::vector<std::int64_t> times, transfers;
    std::vector<test::Instance::Edge> edges;
    for (std::size_t i = 0; i < count; ++i) {
      times.push_back(random.between(1, 9));
      transfers.push_back(random.between(0, 20));
      edges.push_back({i, count, transfers.back()});
    }
    const std::int64_t best = best_join(times, transfers);
    times.push_back(1);
    const Problem problem = uniform(times, edges);
    CHECK(unscaled(clusters_of(problem).makespan, MeanCosts{problem}) == best + 1);
  }
}

TEST_CASE("clusters are a schedule on unlimited devices, groups stay together, and no path gets longer") {
  Random random{5};
  for (int round = 0; round < test::rounds(500); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 30});
    const Graph& graph = problem.graph();
    const MeanCosts means{problem};
    const DscClusters found = dsc_clusters(problem, means);
    const auto finish = [&](OpId op) { return found.start[op] + means.mean(op); };
    bool grouped = false;
    for (const OpId op : problem.ops()) {
      for (const TensorId tensor : graph.inputs(op)) {
        const OpId from = graph.producer(tensor);
        CHECK(found.start[op] >= finish(from) + (found.of[from] == found.of[op] ? ScaledTime{0} : means.mean(tensor)));
      }
      for (const OpId earlier : graph.after(op)) CHECK(found.start[op] >= finish(earlier));
      for (const OpId other : problem.ops())
        if (other < op && found.of[other] == found.of[op])
          CHECK((finish(other) <= found.start[op] || finish(op) <= found.start[other]));
      for (const OpId other : problem.group_ops(problem.group(op))) {
        CHECK(found.of[other] == found.of[op]);
        grouped |= other != op;
      }
    }
    const auto ranks = upward_ranks(problem, means);
    if (!grouped) CHECK(found.makespan <= *std::ranges::max_element(ranks));  // single ops, all transfers paid
  }
}

TEST_CASE("each mapping puts two independent heavy clusters on two devices") {
  // Chains a 9 -> b 9 and c 9 -> d 9 with long transfers
  const Problem problem = uniform({9, 9, 9, 9}, {{0, 1, 50}, {2, 3, 50}});
  for (const ClusterMapping mapping : {ClusterMapping::load, ClusterMapping::cut, ClusterMapping::finish}) {
    const Schedule schedule = dsc(problem, {.mapping = mapping});
    CHECK(schedule.plan->makespan == Nanoseconds{18});
    CHECK(schedule.placement[OpId{0}] == schedule.placement[OpId{1}]);
    CHECK(schedule.placement[OpId{2}] == schedule.placement[OpId{3}]);
  }
}

TEST_CASE("a cluster that no device can run as a whole comes apart") {
  GraphBuilder builder;
  const std::vector<GivenTime> time{{"cpu", Nanoseconds{2}}};
  builder.add({.name = "a", .device_kinds = {"p0"}, .times = time, .outputs = {{"x", Bytes{3}}}});
  builder.add({.name = "b", .device_kinds = {"p1"}, .times = time, .inputs = {"x"}});
  const Problem problem{std::move(builder).build(), make_cluster(test::full_mesh(2))};
  CHECK(clusters_of(problem).count == 1);
  CHECK(test::rows_of(dsc(problem)) == std::vector<test::Row>{{0, 0}, {1, 5}});  // 2 + 3
}
