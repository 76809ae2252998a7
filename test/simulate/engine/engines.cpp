#include <doctest/doctest.h>

#include <queue>
#include <vector>

#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/simulate/account/timeline.hpp"
#include "trainyard/simulate/engine/choose_engine.hpp"
#include "trainyard/simulate/engine/commit_engine.hpp"
#include "trainyard/simulate/engine/event_engine.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"

namespace trainyard::test {
namespace {

using detail::DenseProblem;
using detail::Workspace;

struct Run {
  Nanoseconds makespan;
  IdMap<OpId, Span> ops;
  std::vector<Transfer> transfers;

  friend bool operator==(const Run&, const Run&) = default;
};

template <class Engine>
Run run(const Engine& engine, const DenseProblem& problem, const Schedule& schedule, Workspace& workspace,
        const Nanoseconds* durations = nullptr) {
  const Nanoseconds makespan = engine(problem, schedule, durations, true, workspace);
  CHECK(engine(problem, schedule, durations, false, workspace) == makespan);
  return {makespan, workspace.record.ops, detail::recorded_transfers(problem, schedule.placement, workspace.record)};
}

Schedule with_policy(Schedule schedule, Policy policy) {
  schedule.policy = policy;
  return schedule;
}

/// The schedule under fifo, strict and priority and, if it has priorities, strict with links by priority.
std::vector<Schedule> with_each_policy(const Schedule& schedule) {
  std::vector<Schedule> all;
  for (const Policy policy : {Policy::fifo, Policy::strict, Policy::priority})
    all.push_back(with_policy(schedule, policy));
  if (schedule.priority.empty()) return all;
  all.push_back(with_policy(schedule, Policy::strict));
  all.back().urgent_links = true;
  return all;
}

TEST_CASE("the commit-ordered engines and the event engine give identical timelines") {
  std::size_t forms[3] = {}, renumbered = 0, collectives = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(6'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(11, seed);
    RandomProblemOptions options;
    options.most_ops = seed % 10 == 0 ? 200 : 40;
    options.most_devices = seed % 7 == 0 ? 40 : 6;
    options.closed_links = seed % 2 == 0;
    options.zero_times = seed % 4 < 2 ? 0.0 : 0.2;
    options.memory = false;
    if (seed % 5 == 0) options.collectives = options.most_ops / 5;
    const DenseProblem problem{random_problem(random, options)};
    ++forms[static_cast<std::size_t>(problem.links)];
    renumbered += problem.renumbered;
    collectives += problem.collectives;
    Workspace commits{problem}, events{problem};
    for (int again = 0; again < 2; ++again) {  // a workspace keeps nothing from one run to the next
      const Schedule any = random_schedule(random, problem.problem);
      for (const Schedule& schedule : with_each_policy(any))
        REQUIRE(run(detail::run_engine, problem, schedule, commits) ==
                run(detail::run_event_engine, problem, schedule, events));
    }
  }
  for (const std::size_t form : forms) CHECK(form > test::rounds(500U));
  CHECK(renumbered > test::rounds(1'000U));
  CHECK(collectives > test::rounds(900U));
}

TEST_CASE("given op times take the place of the problem's in both engines, zero or not") {
  for (std::uint64_t seed = 0; seed < test::rounds(1'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(12, seed);
    RandomProblemOptions options;
    options.closed_links = seed % 2 == 0;
    options.zero_times = seed % 4 < 2 ? 0.0 : 0.2;
    options.collectives = seed % 3 == 0 ? 3 : 0;
    const DenseProblem problem{random_problem(random, options)};
    Workspace commits{problem}, events{problem};
    IdMap<OpId, Nanoseconds> durations;
    for (const OpId op : problem.problem.ops())
      durations.push_back(Nanoseconds{problem.problem.graph().collective(op) ? 0 : random.between(0, 9)});
    for (const Schedule& schedule : with_each_policy(random_schedule(random, problem.problem)))
      REQUIRE(run(detail::run_engine, problem, schedule, commits, durations.data()) ==
              run(detail::run_event_engine, problem, schedule, events, durations.data()));
  }
}

TEST_CASE("many devices use the timing wheels and give the same timelines") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(13, seed);
    ClusterSpec spec;
    spec.name = "many";
    const std::size_t devices = seed % 2 == 0 ? 64 : 300;
    for (std::size_t i = 0; i < devices; ++i) {
      Device device;
      device.name = "d" + std::to_string(i);
      device.device_class = "gpu";
      spec.devices.push_back(device);
      spec.egresses.push_back({device.name, BytesPerSecond{1e9}, Nanoseconds{1}, Nanoseconds{0}, false});
    }
    RandomProblemOptions options;
    options.most_ops = 300;
    options.closed_links = true;
    // Times from 1 to 4 ns are within a turn of the wheel, those of up to 4 s far beyond.
    options.unit_ns = seed < 3 ? 1 : 1'000'000'000;
    options.zero_times = 0;
    const Problem small = random_problem(random, options);
    const DenseProblem problem{Problem{small.graph(), make_cluster(std::move(spec))}};
    Workspace commits{problem}, events{problem};
    const Schedule schedule = with_policy(random_schedule(random, problem.problem), Policy::fifo);
    REQUIRE(run(detail::run_commits, problem, schedule, commits) ==
            run(detail::run_event_engine, problem, schedule, events));
  }
}

/// Inserts and takes tasks at random, as an engine would: no ready time is before that of the last task taken.
template <class Queue>
void check_queue(std::int64_t longest_step, std::int64_t gap, std::uint64_t seed) {
  constexpr std::uint32_t kTasks = 3'000;
  Queue queue;
  queue.prepare(kTasks, Nanoseconds{gap});
  Random random{seed};
  for (int run = 0; run < 3; ++run) {
    queue.clear();
    using Entry = std::pair<std::int64_t, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> expected;
    std::vector<std::uint32_t> tasks(kTasks);
    for (std::uint32_t i = 0; i < kTasks; ++i) tasks[i] = i;
    random.shuffle(tasks);
    std::int64_t now = 0;
    std::size_t next = 0;
    while (next < kTasks || !expected.empty()) {
      if (run == 1 && next > kTasks / 2) break;  // the next run must clear the tasks left here
      for (std::size_t i = random.below(4); i > 0 && next < kTasks; --i, ++next) {
        // Ready times are mostly near, sometimes now, sometimes far ahead.
        const std::int64_t step = random.chance(0.2) ? 0 : random.between(0, random.chance(0.1) ? longest_step : gap);
        queue.insert(tasks[next], Nanoseconds{now + step});
        expected.emplace(now + step, tasks[next]);
      }
      std::uint32_t task = 0;
      Nanoseconds ready;
      REQUIRE(queue.take(task, ready) == !expected.empty());
      if (expected.empty()) continue;
      REQUIRE(std::pair{ready.count, task} == expected.top());
      expected.pop();
      now = ready.count;
    }
  }
}

TEST_CASE("both queues give tasks back by ready time, then by number") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    // Times around the bucket width, far above it, and all within one bucket.
    for (const auto& [longest, gap] : {std::pair{1'000, 10}, std::pair{10'000'000, 10}, std::pair{50, 1'000'000}}) {
      check_queue<detail::PackedHeap>(longest, gap, seed);
      check_queue<detail::TimingWheel<12>>(longest, gap, seed);
      check_queue<detail::TimingWheel<16>>(longest, gap, seed);
    }
  }
}

TEST_CASE("a packed key holds times as large as the tasks leave room for") {
  CHECK(detail::PackedHeap::fits(1'000'000, Nanoseconds{std::int64_t{1} << 42}));   // 20 bits for tasks, 43 for times
  CHECK(!detail::PackedHeap::fits(1'000'000, Nanoseconds{std::int64_t{1} << 43}));  // 20 and 44 bits
}

TEST_CASE("one simulation object gives what simulate gives, run after run, and so does its copy") {
  for (std::uint64_t seed = 0; seed < test::rounds(300U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(14, seed);
    const Problem problem = random_problem(random);
    Simulation simulation{problem};
    for (int i = 0; i < 3; ++i) {
      const Schedule schedule = random_schedule(random, problem);
      const Timeline expected = naive_simulate(problem, schedule);
      CHECK(simulation.makespan(schedule) == expected.makespan);
      Timeline timeline = simulation.timeline(schedule);
      CHECK(timeline == simulate(problem, schedule));
      CHECK(Simulation{simulation}.timeline(schedule) == timeline);
      const MemoryPeaks& peaks = simulation.peaks(schedule);
      CHECK(peaks.makespan == expected.makespan);
      CHECK(peaks.fits == timeline.fits());
      for (const DeviceId device : problem.devices()) {
        CHECK(peaks.peak[device] == expected.devices[device].peak);
        CHECK(peaks.peak_at[device] == expected.devices[device].peak_at);
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::test
