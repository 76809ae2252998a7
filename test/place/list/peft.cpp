#include "trainyard/place/list/peft.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "place/instances.hpp"
#include "place/reference_answers.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/place/kit/ranks.hpp"

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
  // a 5 | 6, then b 100 | 1 after a transfer of 50: OCT(a, p0) = min(100, 1 + 50) = 51, OCT(a, p1) = 1.
  // p0: 5 + 51 = 56, p1: 6 + 1 = 7. HEFT would take p0 for a.
  const Problem problem = test::make_problem({{{5, 6}, {100, 1}}, {{0, 1, 50}}});
  CHECK(test::rows_of(peft(problem)) == std::vector<Row>{{1, 0}, {1, 6}});
}

TEST_CASE("devices that are alike share a column of the table and ties go to the first of them") {
  // two independent ops of 3: the first on p0, the second on p1, since it would wait on p0
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

namespace {

/// PEFT by definition, with OCT over all pairs of devices. Without memory.
Schedule plain_peft(const Problem& problem) {
  const MeanCosts means{problem};
  const Graph& graph = problem.graph();
  std::vector<std::vector<ScaledTime>> table(problem.op_count(), std::vector<ScaledTime>(problem.device_count()));
  const auto& order = graph.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at)
    for (const DeviceId p : problem.devices()) {
      const auto consider = [&](OpId successor, ScaledTime crossing) {
        std::optional<ScaledTime> least;
        for (const DeviceId q : problem.devices()) {
          if (!problem.can_run(successor, q)) continue;
          const ScaledTime value = table[successor.index()][q.index()] +
                                   ScaledTime{problem.duration(successor, q).count} * means.scale() +
                                   (q == p ? ScaledTime{0} : crossing);
          if (!least || value < *least) least = value;
        }
        ScaledTime& entry = table[at->index()][p.index()];
        entry = std::max(entry, *least);
      };
      for (const TensorId tensor : graph.outputs(*at))
        for (const OpId reader : graph.consumers(tensor)) consider(reader, means.mean(tensor));
      for (const OpId later : graph.before(*at)) consider(later, 0);
    }
  IdMap<OpId, ScaledTime> priority(problem.op_count());
  for (const OpId op : problem.ops())
    for (const ScaledTime value : table[op.index()]) priority[op] += value;
  AnalyticPlan plan{problem};
  for (const OpId op : by_priority_when_free(problem, priority)) {
    std::optional<AnalyticPlan::Slot> best;
    const auto value = [&](const AnalyticPlan::Slot& slot) {
      return ScaledTime{slot.finish.count} * means.scale() + table[op.index()][slot.device.index()];
    };
    for (const DeviceId device : plan.candidates(op))
      if (const auto slot = plan.earliest_slot(op, device); !best || value(slot) < value(*best)) best = slot;
    plan.place(op, *best);
  }
  return plan.schedule();
}

}  // namespace

TEST_CASE("the table by classes of devices gives what the table over all pairs of devices gives") {
  Random random{2014};
  for (int round = 0; round < test::rounds(400); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 25, .memory = false});
    const Schedule found = peft(problem), expected = plain_peft(problem);
    REQUIRE(found.placement == expected.placement);
    REQUIRE(found.plan == expected.plan);
  }
}
