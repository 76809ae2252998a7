#include "trainyard/report/explanation.hpp"

#include <doctest/doctest.h>

#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

Nanoseconds ns(std::int64_t count) { return Nanoseconds{count}; }

TEST_CASE("five ops on two devices: the path, what it waited for, and what the devices did") {
  const SmallInstance instance{{{0, 2}, {0, 3}, {1, 4}, {1, 2}, {0, 1}},
                               {{0, {1}, 5}, {0, {2}, 1}, {1, {3}, 2}, {2, {4}, 3}, {3, {4}, 1}}};
  const Problem problem = problem_of(instance, linked(2));
  const Schedule schedule = schedule_of(instance);
  const Timeline timeline = simulate(problem, schedule);
  // Op 0 on d0 [0, 2), its byte to d1 [2, 3), op 2 on d1 [3, 7). Op 1 on d0 [2, 5), its two bytes [5, 7), op 3 on d1
  // [7, 9). Back to d0: the tensor of 2 [7, 10), then that of 3, ready at 9, [10, 11). Op 4 on d0 [11, 12).
  const Explanation why = explain(problem, schedule, timeline);
  REQUIRE(why.path.size() == 6);
  CHECK(why.ops == ns(2 + 4 + 1));
  CHECK(why.transfers == ns(1 + 3 + 1));
  CHECK(why.gaps == ns(0));
  const PathTask& late = why.path[4];  // the tensor of 3
  CHECK(late.ready == ns(9));
  CHECK(late.start == ns(10));
  CHECK(late.waited() == ns(1));
  CHECK(late.busy_meanwhile == ns(1));
  CHECK(late.tasks_meanwhile == 1);
  CHECK(problem.cluster().channel(late.channel).from == "d1");
  const auto waits = longest_waits(problem, schedule, timeline, why, 10, 10);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].task == 4);
  REQUIRE(waits[0].occupants.size() == 1);
  CHECK(timeline.transfers[waits[0].occupants[0].transfer].bytes == Bytes{3});
  CHECK(waits[0].occupants[0].time == ns(1));

  // Shares of the path: d1 4, d1 -> d0 3 + 1, d0 2 + 1, d0 -> d1 1. Ties list devices first.
  REQUIRE(why.shares.size() == 4);
  CHECK(why.shares[0] == PathShare{.device = DeviceId{1}, .tasks = 1, .time = ns(4)});
  CHECK(why.shares[1] ==
        PathShare{.device = DeviceId{1}, .to = DeviceId{0}, .tasks = 2, .time = ns(4), .waited = ns(1)});
  CHECK(why.shares[2] == PathShare{.device = DeviceId{0}, .tasks = 2, .time = ns(3)});
  CHECK(why.shares[3] == PathShare{.device = DeviceId{0}, .to = DeviceId{1}, .tasks = 1, .time = ns(1)});

  // d0 runs for 2 + 3 + 1, is idle in [5, 7) with no transfer to it under way, and awaits two transfers in [7, 11).
  CHECK(why.devices[DeviceId{0}] == DeviceTime{ns(6), ns(4), ns(2), ns(0)});
  // d1 is idle in [0, 2), awaits the byte in [2, 3), runs in [3, 9), and is done after that.
  CHECK(why.devices[DeviceId{1}] == DeviceTime{ns(6), ns(1), ns(2), ns(3)});

  const auto runs = path_runs(schedule, timeline, why);
  REQUIRE(runs.size() == 5);
  CHECK(runs[3] == PathRun{3, 4, ns(7), ns(11), ns(1)});
}

TEST_CASE("a timeline of another problem, or a placement of another, explains nothing") {
  const SmallInstance instance{{{0, 2}, {0, 3}}, {}};
  const Problem problem = problem_of(instance, linked(1));
  const Schedule schedule = schedule_of(instance);
  CHECK_THROWS_AS(explain(problem, schedule, Timeline{}), InputError);
  CHECK_THROWS_AS(explain(problem, {.placement = Placement(2)}, simulate(problem, schedule)), InputError);
  const Explanation why = explain(problem, schedule, simulate(problem, schedule));
  CHECK_THROWS_AS(longest_waits(problem, schedule, Timeline{}, why, 1, 1), InputError);
  CHECK_THROWS_AS(path_runs(Schedule{}, Timeline{}, why), InputError);
}

TEST_CASE("a strict order keeps a device idle for the op whose turn it is") {
  // On d0: 0 (5 ns), then 2, which waits for 1 on d1 (8 ns), then 3, which has been ready since 5.
  const SmallInstance instance{{{0, 5}, {1, 8}, {0, 1}, {0, 2}}, {{1, {2}, 1}, {0, {3}, 1}}};
  const Problem problem = problem_of(instance, linked(2));
  Schedule schedule = schedule_of(instance);
  schedule.policy = Policy::strict;
  schedule.order = IdMap<DeviceId, std::vector<OpId>>{{{OpId{0}, OpId{2}, OpId{3}}, {OpId{1}}}};
  const Timeline timeline = simulate(problem, schedule);
  // Op 1 runs [0, 8), its byte takes [8, 9), op 2 runs [9, 10), op 3 [10, 12).
  const Explanation why = explain(problem, schedule, timeline);
  REQUIRE(why.path.size() == 4);
  CHECK(why.path[3].ready == ns(5));
  CHECK(why.path[3].waited() == ns(5));
  CHECK(why.path[3].busy_meanwhile == ns(1));  // op 2 runs for 1 ns of the wait
  CHECK(why.path[3].tasks_meanwhile == 1);
}

TEST_CASE("waits that overlap are not added up") {
  // Three ops of 5, 6 and 7 ns, ready at 0, share a device. The second waits 5 ns, the third 11, of a makespan of 18.
  const SmallInstance instance{{{0, 5}, {0, 6}, {0, 7}}, {}};
  const Problem problem = problem_of(instance, linked(1));
  const Schedule schedule = schedule_of(instance);
  const Timeline timeline = simulate(problem, schedule);
  const Explanation why = explain(problem, schedule, timeline);
  REQUIRE(why.path.size() == 3);
  CHECK(why.path[1].waited() == ns(5));
  CHECK(why.path[2].waited() == ns(11));
  REQUIRE(why.shares.size() == 1);
  CHECK(why.shares[0].waited == ns(11));
  CHECK(path_runs(schedule, timeline, why)[0].waited == ns(11));
}

TEST_CASE("gaps are part of the path, and count as running") {
  ClusterSpec cluster = linked(1);
  cluster.devices[0].gap = ns(3);
  const SmallInstance instance{{{0, 2}, {0, 4}}, {}};
  const Problem problem = problem_of(instance, cluster);
  const Schedule schedule = schedule_of(instance);
  const Timeline timeline = simulate(problem, schedule);  // 2 + 3 + 4
  const Explanation why = explain(problem, schedule, timeline);
  CHECK(timeline.makespan == ns(9));
  CHECK(why.ops == ns(6));
  CHECK(why.gaps == ns(3));
  CHECK(why.devices[DeviceId{0}] == DeviceTime{ns(9), ns(0), ns(0), ns(0)});
  CHECK(why.path[1].waited() == ns(5));
  CHECK(why.path[1].busy_meanwhile == ns(2));
}

TEST_CASE("on random runs the parts add up") {
  std::size_t waits = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(1500U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(31, seed);
    RandomProblemOptions options;
    options.most_ops = 25;
    options.collectives = seed % 3;
    const Problem problem = random_problem(random, options);
    const Schedule schedule = random_schedule(random, problem);
    const Timeline timeline = simulate(problem, schedule);
    const Explanation why = explain(problem, schedule, timeline);
    REQUIRE(why.ops + why.transfers + why.gaps == timeline.makespan);
    Nanoseconds shares{0};
    for (const PathShare& share : why.shares) {
      shares += share.time;
      REQUIRE(share.waited <= timeline.makespan);
    }
    for (const PathRun& run : path_runs(schedule, timeline, why)) REQUIRE(run.waited <= timeline.makespan);
    REQUIRE(shares == why.ops + why.transfers);
    for (const DeviceId device : problem.devices()) {
      const DeviceTime& time = why.devices[device];
      REQUIRE(time.running + time.awaiting + time.idle + time.done == timeline.makespan);
      REQUIRE(time.running >= timeline.devices[device].busy);
      for (const Nanoseconds part : {time.running, time.awaiting, time.idle, time.done}) REQUIRE(part >= ns(0));
      if (problem.cluster().device(device).gap == ns(0)) REQUIRE(time.running == timeline.devices[device].busy);
    }
    for (const Wait& wait : longest_waits(problem, schedule, timeline, why, 100, 100)) {
      const PathTask& task = why.path[wait.task];
      Nanoseconds sum{0};
      for (const Occupant& each : wait.occupants) sum += each.time;
      REQUIRE(sum == task.busy_meanwhile);
      REQUIRE(sum <= task.waited());
      REQUIRE(wait.occupants.size() == task.tasks_meanwhile);
      ++waits;
    }
    for (const PathTask& task : why.path) REQUIRE(task.waited() >= ns(0));
  }
  CHECK(waits > 500);
}

}  // namespace
}  // namespace trainyard::test
