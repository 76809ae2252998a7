#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "support/naive.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

TEST_CASE("the engine and the plain rules agree on thousands of random problems") {
  std::size_t transfers = 0, broadcasts = 0, waited = 0, short_of_memory = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(20'000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(2026, seed);
    const Problem problem = random_problem(random);
    const Schedule schedule = random_schedule(random, problem);
    Timeline timeline = simulate(problem, schedule);
    const Timeline expected = naive_simulate(problem, schedule);
    REQUIRE(simulated_makespan(problem, schedule) == expected.makespan);
    for (DeviceUse& use : timeline.devices) {
      const DeviceId device{static_cast<std::size_t>(&use - &timeline.devices[DeviceId{0}])};
      const auto capacity = problem.cluster().device(device).memory;
      REQUIRE(use.out_of_memory.has_value() == (capacity && use.peak > *capacity));
      if (use.out_of_memory) {
        ++short_of_memory;
        const OutOfMemory& found = *use.out_of_memory;
        CHECK(found.over == use.peak - *capacity);
        CHECK(found.resident + found.produced + found.arrived + found.workspace == use.peak);
        CHECK(found.at <= use.peak_at);
      }
      use.out_of_memory.reset();  // naive_simulate() does not set it
    }
    REQUIRE(timeline.ops == expected.ops);
    REQUIRE(timeline.transfers == expected.transfers);
    REQUIRE(timeline == expected);
    transfers += timeline.transfers.size();
    for (const Transfer& transfer : timeline.transfers) {
      broadcasts += !transfer.also_to.empty();
      waited += transfer.start > transfer.ready;
    }
  }
  // The random problems cover these cases.
  CHECK(transfers > test::rounds(50'000U));
  CHECK(broadcasts > test::rounds(500U));
  CHECK(waited > test::rounds(5'000U));
  CHECK(short_of_memory > 1'000);
}

TEST_CASE("calls from many threads give the same timelines") {
  Random random{7};
  RandomProblemOptions options;
  options.most_ops = 200;
  std::vector<Problem> problems;
  std::vector<Schedule> schedules;
  std::vector<Timeline> expected;
  for (int i = 0; i < 20; ++i) {
    problems.push_back(random_problem(random, options));
    schedules.push_back(random_schedule(random, problems.back()));
    expected.push_back(simulate(problems.back(), schedules.back()));
  }
  std::vector<std::vector<Timeline>> found(4);
  {
    std::vector<std::jthread> threads;
    for (auto& timelines : found)
      threads.emplace_back([&] {
        for (std::size_t i = 0; i < problems.size(); ++i) timelines.push_back(simulate(problems[i], schedules[i]));
      });
  }
  for (const auto& timelines : found) CHECK(timelines == expected);
}

TEST_CASE("moving an op changes nothing that starts before the earliest end of its producers") {
  for (std::uint64_t seed = 0; seed < test::rounds(2000U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(11, seed);
    RandomProblemOptions options;
    options.plain_cluster = true;
    options.most_ops = 30;
    const Problem problem = random_problem(random, options);
    Schedule before = random_schedule(random, problem);
    if (before.policy == Policy::strict) before.policy = Policy::fifo;
    const OpId moved{random.below(problem.op_count())};
    if (problem.group_ops(problem.group(moved)).size() > 1) continue;
    Schedule after = before;
    after.placement[moved] = DeviceId{random.below(problem.device_count())};
    if (!problem.can_run(moved, after.placement[moved])) continue;

    const Timeline was = simulate(problem, before), is = simulate(problem, after);
    const Graph& graph = problem.graph();
    Nanoseconds restart = kLongestTime;
    for (const TensorId tensor : graph.inputs(moved)) restart = std::min(restart, was.ops[graph.producer(tensor)].end);
    for (const OpId earlier : graph.after(moved)) restart = std::min(restart, was.ops[earlier].end);
    if (restart == kLongestTime) restart = Nanoseconds{0};
    for (const OpId op : graph.ops())
      if (was.ops[op].start < restart || is.ops[op].start < restart) REQUIRE(was.ops[op] == is.ops[op]);
    const auto early = [&](const Timeline& timeline) {
      std::vector<Transfer> result;
      std::ranges::copy_if(timeline.transfers, std::back_inserter(result),
                           [&](const Transfer& transfer) { return transfer.start < restart; });
      return result;
    };
    REQUIRE(early(was) == early(is));
  }
}

TEST_CASE("times that are all four times as long give a timeline that is four times as long") {
  for (std::uint64_t seed = 0; seed < test::rounds(500U); ++seed) {
    CAPTURE(seed);
    const auto timeline_at = [&](std::int64_t unit) {
      Random random = Random::stream(13, seed);
      RandomProblemOptions options;
      options.unit_ns = unit;
      const Problem problem = random_problem(random, options);
      return simulate(problem, random_schedule(random, problem));
    };
    const Timeline once = timeline_at(1), scaled = timeline_at(4);
    CHECK(scaled.makespan == once.makespan * 4);
    for (const OpId op : once.ops.ids()) {
      CHECK(scaled.ops[op].start == once.ops[op].start * 4);
      CHECK(scaled.ops[op].end == once.ops[op].end * 4);
    }
    for (std::size_t i = 0; i < once.transfers.size(); ++i)
      CHECK(scaled.transfers[i].start == once.transfers[i].start * 4);
  }
}

}  // namespace
}  // namespace trainyard::test
