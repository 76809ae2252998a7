#include "trainyard/place/auto/auto.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "place/instances.hpp"
#include "simulate/naive.hpp"
#include "simulate/random_problem.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/evaluator.hpp"
#include "trainyard/place/plan_order.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard {
namespace {

/// The least makespan over all placements and all orders of the devices, run by the naive simulator.
Nanoseconds least_makespan(const Problem& problem) {
  Nanoseconds least = kLongestTime;
  const std::size_t devices = problem.device_count();
  std::vector<OpId> sequence(problem.ops().begin(), problem.ops().end());
  Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0}), .policy = Policy::strict};
  do {
    schedule.placement = Placement(problem.op_count(), DeviceId{0});
    for (;;) {
      schedule.order.assign(devices, {});
      for (const OpId op : sequence) schedule.order[schedule.placement[op]].push_back(op);
      try {
        check_schedule(problem, schedule);
        least = std::min(least, test::naive_simulate(problem, schedule).makespan);
      } catch (const InputError&) {  // an order that contradicts the graph, or a device that cannot run the op
      }
      std::size_t digit = 0;
      for (; digit < problem.op_count(); ++digit) {
        DeviceId& device = schedule.placement[OpId{digit}];
        device = DeviceId{device.index() + 1};
        if (device.index() < devices) break;
        device = DeviceId{0};
      }
      if (digit == problem.op_count()) break;
    }
  } while (std::ranges::next_permutation(sequence, {}, [](OpId op) { return op.index(); }).found);
  return least;
}

TEST_CASE("auto finds the optimum of small problems: no placement and no order of the devices is shorter") {
  Random random{1};
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    test::Instance instance;
    const auto count = static_cast<std::size_t>(random.between(2, 5));
    for (std::size_t i = 0; i < count; ++i) {
      instance.times.push_back({random.between(1, 9), random.between(1, 9)});
      for (std::size_t j = 0; j < i; ++j)
        if (random.chance(0.4)) instance.edges.push_back({j, i, random.between(0, 6)});
    }
    const Problem problem = test::make_problem(instance);
    const Schedule schedule = auto_place(problem, {.budget = {.evaluations = 1'500}});
    CHECK(test::naive_simulate(problem, schedule).makespan <= least_makespan(problem));
  }
}

TEST_CASE("auto is no worse than any placer that does not search, and the same on any number of threads") {
  Random random{2};
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 40});
    const PlaceOptions options{.seed = 9, .budget = {.evaluations = 600}, .threads = 1};
    const Schedule schedule = auto_place(problem, options);
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    const Outcome outcome = simulated_outcome(problem, schedule);
    CHECK(outcome.makespan == test::naive_simulate(problem, schedule).makespan);
    if (outcome.excess.count == 0) CHECK(outcome.makespan >= best_lower_bound(problem).value);
    for (const Placer& placer : placers()) {
      if (placer.searches) continue;
      CAPTURE(placer.name);
      std::optional<Outcome> member;
      try {
        member = simulated_outcome(problem, placer.place(problem, {.seed = 9}));
      } catch (const InputError&) {  // has no answer
      }
      if (member) CHECK(outcome <= *member);
    }
    for (const unsigned threads : {2U, 5U}) {
      PlaceOptions others = options;
      others.threads = threads;
      CHECK(auto_place(problem, others) == schedule);
    }
  }
}

TEST_CASE("auto fits into memory where one of its members does, and says how much it evaluated") {
  Random random{3};
  int tight = 0;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const Problem roomy = test::random_problem(random, {.most_ops = 20});
    // Just what heft needs there at most.
    Bytes most{1};
    for (const DeviceUse& use : simulate(roomy, find_placer("heft").place(roomy, {})).devices)
      most = std::max(most, use.peak);
    ClusterSpec spec = roomy.cluster().spec();
    for (Device& device : spec.devices) device.memory = most;
    const Problem problem{roomy.graph(), make_cluster(std::move(spec))};
    const bool member_fits = std::ranges::any_of(placers(), [&](const Placer& placer) {
      try {
        return !placer.searches && simulate(problem, placer.place(problem, {})).fits();
      } catch (const InputError&) {  // has no answer
        return false;
      }
    });
    const Schedule schedule = auto_place(problem, {.budget = {.evaluations = 400}});
    if (member_fits) CHECK(simulate(problem, schedule).fits());
    tight += memory_may_bind(problem) ? 1 : 0;
    REQUIRE(schedule.search);
    CHECK(schedule.search->evaluations >= 1);
  }
  CHECK(tight > 10);
}

TEST_CASE("a search that is stopped, or has no time, returns the best of the members") {
  Random random{4};
  const Problem problem = test::random_problem(random, {.most_ops = 40});
  const Schedule stopped = auto_place(problem, {.stop = [] { return true; }});
  REQUIRE_NOTHROW(check_schedule(problem, stopped));
  const Schedule hasty = auto_place(problem, {.budget = {.seconds = 0}});
  REQUIRE_NOTHROW(check_schedule(problem, hasty));
}

TEST_CASE("progress never gets worse, and ends at the result") {
  Random random{6};
  const Problem problem = test::random_problem(random, {.most_ops = 40});
  std::vector<SearchProgress> seen;
  const Schedule schedule =
      auto_place(problem, {.budget = {.evaluations = 2'000},
                           .on_progress = [&](const SearchProgress& progress) { seen.push_back(progress); }});
  REQUIRE(!seen.empty());
  for (std::size_t i = 1; i < seen.size(); ++i) {
    CHECK(seen[i].best <= seen[i - 1].best);
    CHECK(seen[i].evaluations >= seen[i - 1].evaluations);
  }
  CHECK(seen.back().best == simulate(problem, schedule).makespan);
  CHECK(seen.back().lower_bound == best_lower_bound(problem).value);
}

}  // namespace
}  // namespace trainyard
