#include "trainyard/place/auto/windows.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "place/instances.hpp"
#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/place/exact/branch_and_bound.hpp"
#include "trainyard/place/exact/window_search.hpp"
#include "trainyard/place/judge/orders.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// Random tasks of 1 to 9 ns on equal devices, without transfer times.
Problem tasks(Random& random, std::size_t count, std::size_t devices) {
  test::Instance instance;
  for (std::size_t i = 0; i < count; ++i) {
    instance.times.emplace_back(devices, random.between(1, 9));
    for (std::size_t j = 0; j < i; ++j)
      if (random.chance(0.2)) instance.edges.push_back({j, i, 0});
  }
  return test::make_problem(instance);
}

TEST_CASE("the window of all ops is the problem: its optimum is that of branch and bound") {
  Random random{11};
  for (int round = 0; round < test::rounds(40); ++round) {
    CAPTURE(round);
    const Problem problem = tasks(random, 8, 2);
    detail::ExactWindow window;
    for (const OpId op : problem.graph().topological_order()) window.ops.push_back(op);
    window.fixed.assign(8, detail::kUnplaced);
    window.arrival.assign(16, 0);
    window.beyond.assign(16, 0);
    window.available.assign(2 + problem.cluster().channel_count(), 0);
    window.held.assign(2, 0);
    const auto whole = branch_and_bound(problem);
    REQUIRE(whole.complete);
    const auto found = detail::search_window(
        problem, window, {.limit = 1'000, .most_nodes = 1'000'000, .most_per_placement = 1'000'000});
    REQUIRE(found.complete);
    REQUIRE(found.best);
    CHECK(found.best->value == whole.value.count);
    // A later start of the devices (100) and work beyond the window (7) add up.
    std::ranges::fill(window.available, 100);
    std::ranges::fill(window.beyond, 7);
    const auto later = detail::search_window(
        problem, window, {.limit = 1'000, .most_nodes = 1'000'000, .most_per_placement = 1'000'000});
    REQUIRE(later.best);
    CHECK(later.best->value == whole.value.count + 107);
  }
}

TEST_CASE("a window keeps to what arrives when, and to devices that are given") {
  // Two tasks of 5. The first one's input arrives on p0 at 3, on p1 at 9. The second one stays on p0.
  test::Instance instance{{{5, 5}, {5, 5}}, {}};
  const Problem problem = test::make_problem(instance);
  detail::ExactWindow window{.ops = {OpId{0}, OpId{1}},
                             .fixed = {detail::kUnplaced, 0},
                             .arrival = {3, 9, 0, 0},
                             .beyond = {0, 0, 0, 4},
                             .available = {0, 0, 0, 0},
                             .held = {0, 0}};
  const auto both = detail::search_window(problem, window, {.limit = 100});
  REQUIRE(both.best);
  CHECK(both.best->value == 10);  // p0: the second [0, 5), the first [5, 10); on p1 the first would end at 14
  CHECK(both.best->device == std::vector<std::uint32_t>{0, 0});
  CHECK(both.best->start == std::vector<std::int64_t>{5, 0});
  CHECK_FALSE(detail::search_window(problem, window, {.limit = 10}).best);
  window.fixed[1] = 1;  // where 4 more follow
  const auto apart = detail::search_window(problem, window, {.limit = 100});
  CHECK(apart.best->value == 9);  // the first [3, 8) on p0, the second [0, 5) on p1 and 4 more
}

TEST_CASE("windows never make a schedule worse, keep to the problem's rules, and say what the simulator says") {
  Random random{12};
  std::size_t better = 0;
  for (int round = 0; round < test::rounds(60); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 40});
    Schedule schedule = test::random_schedule(random, problem);
    schedule = in_started_order(problem, schedule.placement, simulate(problem, schedule));
    Evaluator evaluator{problem};
    Outcome outcome = evaluator.outcome(schedule);
    const Outcome before = outcome;
    WindowSearch windows{problem, Random{static_cast<std::uint64_t>(round)}};
    const bool improved = windows.run(schedule, outcome, Effort{{.evaluations = 300}});
    CHECK(improved == (outcome < before));
    CHECK(outcome <= before);
    better += improved;
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    CHECK(outcome == evaluator.outcome(schedule));
    CHECK(outcome.makespan == test::naive_simulate(problem, schedule).makespan);
    // A small budget is exceeded by the rest of a node, the last window's answer, and the run that is read.
    WindowSearch few{problem, Random{static_cast<std::uint64_t>(round)}};
    few.run(schedule, outcome, Effort{{.evaluations = 10}});
    CHECK(few.evaluations() <= 13);
  }
  CHECK(better > test::rounds(20U));
}

}  // namespace
}  // namespace trainyard
