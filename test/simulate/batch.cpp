#include "trainyard/simulate/batch.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/random_problem.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/cluster.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
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
  CHECK_THROWS_AS(DeltaSimulation(problem, {.placement = Placement(problem.op_count())}), InputError);  // none() each
}

TEST_CASE("op times below 0, or that add up beyond the longest time, are refused") {
  Random random{7};
  const Problem problem = random_problem(random, {});
  const Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0})};
  Simulation simulation{problem};
  IdMap<OpId, Nanoseconds> times(problem.op_count(), Nanoseconds{1});
  CHECK(simulation.makespan(schedule, times) == Nanoseconds{static_cast<std::int64_t>(problem.op_count())});
  const auto said = [&](Nanoseconds first, Nanoseconds last) {
    times[OpId{0}] = first;
    times[OpId{problem.op_count() - 1}] = last;
    CHECK_THROWS_AS(simulation.timeline(schedule, times), InputError);
    return test::code_of([&] { simulation.makespan(schedule, times); });
  };
  CHECK(said(Nanoseconds{5}, Nanoseconds{-1}) == "range");
  CHECK(said(Nanoseconds{kLongestTime.count / 2}, Nanoseconds{kLongestTime.count / 2}) == "too-large");
  CHECK(said(kLongestTime, kLongestTime) == "too-large");  // the sum is 2^63 and would overflow
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

/// A placement as a row of device indices.
std::vector<std::int32_t> row_of(const Schedule& schedule) {
  std::vector<std::int32_t> row;
  for (const DeviceId device : schedule.placement) row.push_back(static_cast<std::int32_t>(device.index()));
  return row;
}

TEST_CASE("rows of device indices take as long as their schedules, and a row at fault is named") {
  Random random{8};
  for (int trial = 0; trial < test::rounds(200); ++trial) {
    const Problem problem = random_problem(random);
    const std::size_t ops = problem.op_count();
    std::vector<std::int32_t> rows;
    std::vector<Schedule> schedules(20);
    IdMap<OpId, double> priority;
    if (trial % 2 == 1)
      for (std::size_t i = 0; i < ops; ++i) priority.push_back(static_cast<double>(random.below(5)));
    for (Schedule& schedule : schedules) {
      schedule.placement = random_schedule(random, problem).placement;
      schedule.policy = priority.empty() ? Policy::fifo : Policy::priority;
      schedule.priority = priority;
      for (const std::int32_t device : row_of(schedule)) rows.push_back(device);
    }
    std::vector<Nanoseconds> results(schedules.size());
    Batch batch{problem, 1 + static_cast<unsigned>(trial % 3)};
    batch.makespans(rows, priority, results);
    for (std::size_t i = 0; i < schedules.size(); ++i) CHECK(results[i] == simulated_makespan(problem, schedules[i]));

    // With one number replaced, the row is refused exactly if check_schedule refuses it.
    const std::size_t at = random.below(rows.size());
    rows[at] = static_cast<std::int32_t>(random.below(problem.device_count() + 2)) - 1;
    Schedule changed = schedules[at / ops];
    changed.placement[OpId{at % ops}] = DeviceId{static_cast<std::size_t>(rows[at])};
    const std::string wrong = finding_of([&] { check_schedule(problem, changed); }).message;
    CHECK(finding_of([&] { batch.makespans(rows, priority, results); }).message ==
          (wrong.empty() ? "" : fmt::format("row {}: {}", at / ops, wrong)));
  }
}

TEST_CASE("a schedule whose ops are where they cannot run is refused by its number, not simulated in no time") {
  // One op of 5 ns, which only device 0 can run; device 1 is another kind.
  GraphBuilder graph;
  graph.add({.name = "a", .device_kinds = {"fast"}, .times = {{"fast", Nanoseconds{5}}}});
  const Problem problem{
      std::move(graph).build(),
      make_cluster({.devices = {{.name = "d0", .kind = "fast"}, {.name = "d1", .kind = "slow"}},
                    .links = {{.name = "l", .from = "d0", .to = "d1", .bandwidth = BytesPerSecond{1}}}})};
  const auto on = [](std::size_t device) { return Schedule{.placement = Placement(1, DeviceId{device})}; };
  Batch batch{problem, 2};
  CHECK(batch.makespans(std::vector{on(0), on(0)}) == std::vector{Nanoseconds{5}, Nanoseconds{5}});
  const auto said = [](const auto& ask) { return test::finding_of(ask).message; };
  CHECK(said([&] {
          batch.makespans(std::vector{on(0), on(1)});
        }) == "schedule 1: op 'a' is on device 'd1', which cannot run it");
  CHECK(said([&] {
          batch.peaks(std::vector{on(0), on(0), on(2)});
        }).starts_with("schedule 2: op 'a' is on device number 2,"));
  CHECK(said([&] { Simulation{problem}.makespan(on(1)); }) == "op 'a' is on device 'd1', which cannot run it");
  std::vector<Nanoseconds> results(2);
  const std::vector<std::int32_t> rows{0, -2};
  CHECK(said([&] { batch.makespans(rows, {}, results); }) == "row 1: op 'a' is not placed on a device");
}

TEST_CASE("rows and priorities of another size are refused") {
  Random random{9};
  const Problem problem = random_problem(random);
  Batch batch{problem, 1};
  std::vector<Nanoseconds> results(2);
  const std::vector<std::int32_t> rows(2 * problem.op_count(), 0), longer(2 * problem.op_count() + 1, 0);
  CHECK_THROWS_AS(batch.makespans(longer, {}, results), InputError);
  CHECK_THROWS_AS(batch.makespans(rows, IdMap<OpId, double>(problem.op_count() + 1, 0), results), InputError);
}

}  // namespace
}  // namespace trainyard::test
