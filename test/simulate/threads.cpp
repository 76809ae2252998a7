#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/random_problem.hpp"
#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/simulate/batch.hpp"
#include "trainyard/simulate/delta.hpp"
#include "trainyard/simulate/noise.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/simulate/steps.hpp"

// CI also runs these tests under the thread sanitizer (test/house/subproject.sh).

namespace trainyard::test {
namespace {

constexpr std::size_t kThreads = 8;

Problem some_problem(std::uint64_t seed, std::size_t ops, double fair_links) {
  Random random = Random::stream(81, seed);
  RandomProblemOptions options;
  options.most_ops = ops;
  options.fair_links = fair_links;
  options.closed_links = seed % 2 == 1 && fair_links == 0;
  options.zero_times = seed % 4 < 2 ? 0.2 : 0;
  return random_problem(random, options);
}

struct Work {
  Problem problem;
  std::vector<Schedule> schedules;
  std::vector<Timeline> expected;
};
std::vector<Work> some_work() {
  std::vector<Work> all;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Work work{some_problem(seed, 60, seed < 4 ? 0 : 1), {}, {}};
    Random random = Random::stream(82, seed);
    for (int i = 0; i < 12; ++i) work.schedules.push_back(random_schedule(random, work.problem));
    for (const Schedule& schedule : work.schedules) work.expected.push_back(simulate(work.problem, schedule));
    all.push_back(std::move(work));
  }
  return all;
}

/// Runs `work(thread)` on all threads at once and returns the sum of their error counts. doctest's checks are not
/// thread-safe.
template <class Each>
std::size_t wrong_on_all_threads(const Each& work) {
  std::vector<std::size_t> wrong(kThreads, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { wrong[t] = work(t); });
  }
  std::size_t sum = 0;
  for (const std::size_t one : wrong) sum += one;
  return sum;
}

TEST_CASE("eight simulations of one problem at once give what each gives alone") {
  for (const Work& work : some_work()) {
    const Simulation prepared{work.problem};
    const std::size_t wrong = wrong_on_all_threads([&](std::size_t thread) {
      std::size_t count = 0;
      Simulation copy = prepared, own{work.problem};
      for (std::size_t k = 0; k < work.schedules.size(); ++k) {
        const std::size_t i = (k + thread) % work.schedules.size();
        const Timeline& expected = work.expected[i];
        count += copy.makespan(work.schedules[i]) != expected.makespan;
        count += own.peaks(work.schedules[i]).makespan != expected.makespan;
        count += copy.timeline(work.schedules[i]) != expected;
        count += simulate(work.problem, work.schedules[i]) != expected;
      }
      return count;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("eight copies of one delta simulation change at once, each for itself") {
  for (const Work& work : some_work()) {
    const DeltaSimulation start{work.problem, work.schedules[0]};
    const std::size_t wrong = wrong_on_all_threads([&](std::size_t thread) {
      std::size_t count = 0;
      DeltaSimulation delta = start;
      Random random = Random::stream(83, thread);
      for (int i = 0; i < 20; ++i) {
        const OpId op{random.below(work.problem.op_count())};
        const auto group = work.problem.group_ops(work.problem.group(op));
        const DeviceId to{random.below(work.problem.device_count())};
        bool able = true;
        for (const OpId one : group) able = able && work.problem.can_run(one, to);
        if (!able || !delta.try_move(group, to).complete()) continue;
        count += delta.makespan() != simulated_makespan(work.problem, delta.schedule());
        if (i % 2 == 0)
          delta.accept();
        else
          delta.reject();
      }
      return count;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("batches, noise, steps and bounds of one problem run at once") {
  for (const Work& work : some_work()) {
    const NoiseOptions noise{.noise = {.usual = 0.1}, .samples = 16, .threads = 3};
    const NoiseResult scattered = simulate_noise(work.problem, work.schedules[0], noise);
    const StepTimes steps = simulate_steps(work.problem, work.schedules[0], 3);
    const LowerBound bound = best_lower_bound(work.problem);
    const std::size_t wrong = wrong_on_all_threads([&](std::size_t thread) {
      std::size_t count = 0;
      Batch batch{work.problem, static_cast<unsigned>(1 + thread % 4)};
      const auto makespans = batch.makespans(work.schedules);
      for (std::size_t i = 0; i < makespans.size(); ++i) count += makespans[i] != work.expected[i].makespan;
      count += simulate_noise(work.problem, work.schedules[0], noise).samples != scattered.samples;
      count += simulate_steps(work.problem, work.schedules[0], 3).ends != steps.ends;
      count += best_lower_bound(work.problem).value != bound.value;
      return count;
    });
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace trainyard::test
