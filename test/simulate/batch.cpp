#include "trainyard/simulate/batch.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/random_problem.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/simulate/delta.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

TEST_CASE("a schedule of another size than the problem is refused, whatever asks for its times") {
  Random random{7};
  const Problem problem = random_problem(random, {});
  const auto refused = [&](const Schedule& schedule) {
    Simulation simulation{problem};
    CHECK_THROWS_AS(simulation.makespan(schedule), InputError);
    CHECK_THROWS_AS(simulation.peaks(schedule), InputError);
    CHECK_THROWS_AS(simulation.timeline(schedule), InputError);
    CHECK_THROWS_AS(DeltaSimulation(problem, schedule), InputError);
  };
  refused({});
  const Placement whole(problem.op_count(), DeviceId{0});
  refused({.placement = Placement(problem.op_count() + 1, DeviceId{0})});
  refused({.placement = whole, .policy = Policy::strict});
  refused(
      {.placement = whole, .policy = Policy::priority, .priority = IdMap<OpId, double>(problem.op_count() + 1, 0.0)});
  CHECK_THROWS_AS(Simulation{problem}.makespan({.placement = whole}, {}), InputError);
}

TEST_CASE("a batch gives each schedule's own result, in their order, on any number of threads") {
  Random random{5};
  RandomProblemOptions options;
  options.most_ops = 60;
  const Problem problem = random_problem(random, options);
  std::vector<Schedule> schedules;
  for (int i = 0; i < 100; ++i) schedules.push_back(random_schedule(random, problem));
  std::vector<Timeline> expected;
  for (const Schedule& schedule : schedules) expected.push_back(simulate(problem, schedule));
  for (const unsigned threads : {1U, 2U, 7U}) {
    CAPTURE(threads);
    Batch batch{problem, threads};
    for (int again = 0; again < 2; ++again) {
      const auto makespans = batch.makespans(schedules);
      const auto peaks = batch.peaks(schedules);
      REQUIRE(makespans.size() == schedules.size());
      REQUIRE(peaks.size() == schedules.size());
      for (std::size_t i = 0; i < schedules.size(); ++i) {
        CHECK(makespans[i] == expected[i].makespan);
        CHECK(peaks[i].makespan == expected[i].makespan);
        for (const DeviceId device : problem.devices())
          CHECK(peaks[i].peak[device] == expected[i].devices[device].peak);
      }
    }
  }
  CHECK(Batch{problem}.makespans({}).empty());
}

TEST_CASE("a batch of one schedule needs no thread") {
  Random random{6};
  const Problem problem = random_problem(random);
  const std::vector<Schedule> one{random_schedule(random, problem)};
  CHECK(Batch{problem, 4}.makespans(one) == std::vector{simulated_makespan(problem, one[0])});
}

}  // namespace
}  // namespace trainyard::test
