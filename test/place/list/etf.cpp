#include "trainyard/place/list/etf.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/place/kit/ranks.hpp"

using namespace trainyard;
using test::Row;

namespace {

/// ETF by definition: at every step, the best of all pairs of op and device. Without memory and groups.
Schedule try_all_pairs(const Problem& problem, EtfOptions::By by) {
  const auto level = static_levels(problem, MeanCosts{problem});
  AnalyticPlan plan{problem, false};
  std::vector<bool> taken(problem.op_count(), false);
  const auto done = [&](OpId op) { return taken[op.index()]; };
  for (std::size_t step = 0; step < problem.op_count(); ++step) {
    using Key = std::tuple<Nanoseconds, ScaledTime, OpId, DeviceId>;
    std::optional<Key> best;
    AnalyticPlan::Slot chosen{};
    for (const OpId op : problem.ops()) {
      const Graph& graph = problem.graph();
      if (done(op) || !std::ranges::all_of(graph.after(op), done) ||
          !std::ranges::all_of(graph.inputs(op), [&](TensorId t) { return done(graph.producer(t)); }))
        continue;
      for (const DeviceId device : problem.devices()) {
        if (!problem.can_run(op, device)) continue;
        const AnalyticPlan::Slot slot = plan.earliest_slot(op, device);
        const Key key{by == EtfOptions::By::start ? slot.start : slot.finish, -level[op], op, device};
        if (best && key >= *best) continue;
        best = key;
        chosen = slot;
      }
    }
    const OpId op = std::get<OpId>(*best);
    plan.place(op, chosen);
    taken[op.index()] = true;
  }
  return plan.schedule();
}

/// A random problem without groups and memory limits.
Problem free_problem(Random& random) {
  GraphBuilder builder;
  const auto count = static_cast<std::size_t>(random.between(1, 30));
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = "op" + std::to_string(i);
    OpSpec op{.name = name,
              .times = {{"gpu", Nanoseconds{random.between(0, 9)}}, {"cpu", Nanoseconds{random.between(0, 9)}}},
              .outputs = {{name, Bytes{random.between(0, 9)}}}};
    if (random.below(6) == 0) op.device_kinds = {random.below(2) ? "gpu" : "cpu"};
    for (std::size_t j = 0; j < i; ++j)
      if (random.below(8) == 0) (random.below(5) ? op.inputs : op.after).push_back("op" + std::to_string(j));
    builder.add(std::move(op));
  }
  ClusterSpec cluster = test::full_mesh(4);
  cluster.devices[0].device_class = cluster.devices[2].device_class = "gpu";
  cluster.devices[1].gap = Nanoseconds{1};
  cluster.links[1].latency = Nanoseconds{3};
  return Problem{std::move(builder).build(), make_cluster(std::move(cluster))};
}

}  // namespace

TEST_CASE("ETF takes the op that can start first, and of those that can the one with the longest way to go") {
  // a (2) and b (3) are ready, and b -> c (4) with a transfer of 1. Levels: a 2, b 7, c 4. All can start at 0: b on p0,
  // then a on p1. c can start at 3 on p0, and at 4 (3 + 1) on p1.
  const Problem problem = test::make_problem({{{2, 2}, {3, 3}, {4, 4}}, {{1, 2, 1}}});
  CHECK(test::rows_of(etf(problem)) == std::vector<Row>{{1, 0}, {0, 0}, {0, 3}});
}

TEST_CASE("by start a slow device gets what it can start at once, by finish only what it ends sooner") {
  // Two ops of 3 on p0 and 50 on p1. By start the second begins on p1 at 0; by finish it waits for p0: 3 + 3 = 6
  const Problem problem = test::make_problem({{{3, 50}, {3, 50}}, {}});
  CHECK(test::rows_of(etf(problem)) == std::vector<Row>{{0, 0}, {1, 0}});
  CHECK(test::rows_of(etf(problem, {.by = EtfOptions::By::finish})) == std::vector<Row>{{0, 0}, {0, 3}});
}

TEST_CASE("ETF with its heaps takes what trying all pairs takes") {
  Random random{1989};
  for (int round = 0; round < test::rounds(400); ++round) {
    CAPTURE(round);
    const Problem problem = free_problem(random);
    for (const auto by : {EtfOptions::By::start, EtfOptions::By::finish}) {
      const Schedule found = etf(problem, {.by = by}), expected = try_all_pairs(problem, by);
      REQUIRE(found.placement == expected.placement);
      REQUIRE(found.plan == expected.plan);
    }
  }
}
