#include "trainyard/place/list/lookahead_heft.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/kit/analytic_plan.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/kit/successors.hpp"
#include "trainyard/place/list/heft.hpp"

using namespace trainyard;
using test::Row;

TEST_CASE("an op finishes later where what follows is then sooner") {
  // a 5 | 6, then b 100 | 1 after a transfer of 50. a on p0: b ends at 5 + 50 + 1 = 56; on p1: 6 + 1 = 7.
  const Problem problem = test::make_problem({{{5, 6}, {100, 1}}, {{0, 1, 50}}});
  CHECK(test::rows_of(lookahead_heft(problem)) == std::vector<Row>{{1, 0}, {1, 6}});
  CHECK(test::rows_of(heft(problem)).front() == Row{0, 0});
}

TEST_CASE("lookahead HEFT plans 76 for the ten tasks of Topcuoglu, where HEFT plans 80, and 127 for 133") {
  const Schedule one = lookahead_heft(test::make_problem(test::topcuoglu()));
  CHECK(one.plan->makespan == Nanoseconds{76});
  CHECK(test::rows_of(one) ==
        std::vector<Row>{{2, 0}, {1, 27}, {2, 9}, {1, 18}, {0, 20}, {2, 28}, {2, 37}, {1, 58}, {1, 46}, {1, 69}});
  const Schedule two = lookahead_heft(test::make_problem(test::arabnejad()));
  CHECK(two.plan->makespan == Nanoseconds{127});
  CHECK(test::rows_of(two) ==
        std::vector<Row>{{1, 0}, {1, 48}, {0, 52}, {2, 52}, {1, 21}, {2, 28}, {0, 84}, {1, 67}, {1, 90}, {1, 111}});
}

TEST_CASE("a trial is what placing the op and its successors in a copy of the plan gives, on random trees") {
  Random random{2010};
  for (int round = 0; round < test::rounds(100); ++round) {
    CAPTURE(round);
    test::Instance tree;
    const auto count = static_cast<std::size_t>(random.between(1, 12));
    for (std::size_t i = 0; i < count; ++i) {
      tree.times.emplace_back();
      for (int device = 0; device < 3; ++device) tree.times.back().push_back(random.between(0, 9));
      if (i == 0) continue;
      const auto parent = static_cast<std::size_t>(random.below(i));
      tree.edges.push_back({parent, i, random.between(0, 9)});
    }
    const Problem problem = test::make_problem(tree);
    const std::vector<OpId> order = by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem}));
    AnalyticPlan plan{problem};
    for (const OpId op : order) {
      std::optional<AnalyticPlan::Slot> best;
      std::pair<Nanoseconds, Nanoseconds> least;
      std::vector<OpId> next = successors_of(problem.graph(), op);
      std::ranges::sort(next, {}, [&](OpId each) { return std::ranges::find(order, each) - order.begin(); });
      for (const DeviceId device : problem.devices()) {
        const AnalyticPlan::Slot slot = plan.earliest_slot(op, device);
        AnalyticPlan copy = plan;
        copy.place(op, slot);
        Nanoseconds last = next.empty() ? slot.finish : Nanoseconds{0};
        for (const OpId each : next) {
          const AnalyticPlan::Slot after = copy.earliest_finish(each);
          copy.place(each, after);
          last = std::max(last, after.finish);
        }
        const std::pair value{last, slot.finish};
        if (best && value >= least) continue;
        best = slot;
        least = value;
      }
      plan.place(op, *best);
    }
    CHECK(lookahead_heft(problem).plan == plan.schedule().plan);
  }
}
