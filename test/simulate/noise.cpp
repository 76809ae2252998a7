#include "trainyard/simulate/noise.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

NoiseOptions noise_of(double usual, std::size_t samples, std::uint64_t seed = 1) {
  return {.noise = {.usual = usual}, .samples = samples, .seed = seed};
}
double ns(Nanoseconds time) { return static_cast<double>(time.count); }

TEST_CASE("without noise every sample is the plain makespan") {
  for (std::uint64_t seed = 0; seed < test::rounds(200U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(51, seed);
    const Problem problem = random_problem(random);
    const Schedule schedule = random_schedule(random, problem);
    const Nanoseconds plain = simulated_makespan(problem, schedule);
    const NoiseResult result = simulate_noise(problem, schedule, noise_of(0, 5));
    CHECK(result.samples == std::vector<Nanoseconds>(5, plain));
    CHECK(result.mean_ns == ns(plain));
    CHECK(result.deviation == 0);
    CHECK(result.p50 == plain);
    CHECK(result.p99 == plain);
  }
}

TEST_CASE("one op alone is log-normal") {
  const SmallInstance one{{{0, 1'000'000}}, {}};
  constexpr std::size_t samples = 20'000;
  const NoiseResult result = simulate_noise(problem_of(one, linked(1)), schedule_of(one), noise_of(0.2, samples));
  // sigma^2 = ln(1 + 0.04), sigma = 0.19804; the median is exp(-sigma^2 / 2) = 0.98058.
  const double sigma = std::sqrt(std::log(1.04)), median = std::exp(-sigma * sigma / 2);
  // Tolerances are four standard errors. That of the mean is 0.2 / sqrt(20,000) = 0.0014. That of the logarithm of the
  // quantile p is sigma sqrt(p (1 - p) / 20,000) / density(z): 0.0018, 0.0030 and 0.0052.
  CHECK(std::abs(result.mean_ns / 1e6 - 1) < 4 * 0.0014);
  CHECK(std::abs(result.deviation / 0.2 - 1) < 0.05);
  CHECK(std::abs(std::log(ns(result.p50) / 1e6 / median)) < 4 * 0.0018);
  CHECK(std::abs(std::log(ns(result.p95) / 1e6 / median) - sigma * 1.644854) < 4 * 0.0030);
  CHECK(std::abs(std::log(ns(result.p99) / 1e6 / median) - sigma * 2.326348) < 4 * 0.0052);
}

TEST_CASE("in a chain of equal ops the variances add up") {
  SmallInstance chain;
  for (std::size_t i = 0; i < 100; ++i) {
    chain.ops.push_back({0, 100'000});
    if (i > 0) chain.tensors.push_back({i - 1, {i}, 0});
  }
  const NoiseResult result = simulate_noise(problem_of(chain, linked(1)), schedule_of(chain), noise_of(0.2, 4000));
  // The sum of 100 ops has 100 times the mean of one and a relative deviation of 0.2 / sqrt(100) = 0.02, with a
  // standard error of 0.02 / sqrt(2 x 4000) = 0.00022. The standard error of the mean is 0.02 / sqrt(4000) = 0.00032.
  CHECK(std::abs(result.mean_ns / 1e7 - 1) < 4 * 0.00032);
  CHECK(std::abs(result.deviation - 0.02) < 4 * 0.00022);
}

TEST_CASE("without noise every sample of several steps is the mean over their second half") {
  for (std::uint64_t seed = 0; seed < test::rounds(100U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(52, seed);
    const Problem problem = random_problem(random);
    const Schedule schedule = random_schedule(random, problem);
    const std::size_t k = 1 + random.below(6);
    const StepTimes steps = simulate_steps(problem, schedule, k);
    const auto end = [&](std::size_t step) { return step == 0 ? 0 : steps.ends[step - 1].count; };
    const auto n = static_cast<std::int64_t>(k - k / 2);
    const Nanoseconds mean{(2 * (end(k) - end(k / 2)) + n) / (2 * n)};  // halves up
    CHECK(simulate_steps_noise(steps, noise_of(0, 3)).samples == std::vector<Nanoseconds>(3, mean));
  }
}

TEST_CASE("op copies of several steps scatter each on its own") {
  const SmallInstance one{{{0, 1'000'000}}, {}};
  const StepTimes steps = simulate_steps(problem_of(one, linked(1)), schedule_of(one), 8);
  const NoiseResult result = simulate_steps_noise(steps, noise_of(0.2, 4000));
  // A sample is the mean of four steps: its deviation is 0.2 / 2, with a standard error of 0.1 / sqrt(2 x 4000) =
  // 0.0011, slightly more due to the log-normal's tail. The standard error of the mean is 0.1 / sqrt(4000) = 0.0016.
  CHECK(std::abs(result.mean_ns / 1e6 - 1) < 4 * 0.0016);
  CHECK(std::abs(result.deviation - 0.1) < 5 * 0.0011);
  NoiseOptions threads = noise_of(0.2, 37);
  const NoiseResult alone = simulate_steps_noise(steps, threads);
  threads.threads = 3;
  CHECK(simulate_steps_noise(steps, threads) == alone);
}

TEST_CASE("with jitter each device takes one of the recorded factors, each with the same frequency") {
  // Four devices run an op of 1000 ns each. The makespan is 1000 if no device is slow, in (3/4)^4 = 31.6 % of the
  // samples, else 2000.
  const SmallInstance four{{{0, 1000}, {1, 1000}, {2, 1000}, {3, 1000}}, {}};
  NoiseOptions options = noise_of(0, 20'000);
  options.jitter = {1, 2, 1, 1};
  const NoiseResult result = simulate_noise(problem_of(four, linked(4)), schedule_of(four), options);
  const auto none = std::ranges::count(result.samples, Nanoseconds{1000});
  CHECK(none + std::ranges::count(result.samples, Nanoseconds{2000}) == 20'000);
  // The standard error is sqrt(0.316 x 0.684 / 20,000) = 0.0033.
  CHECK(std::abs(static_cast<double>(none) / 20'000 - 0.31640625) < 3.5 * 0.0033);
  options.threads = 3;
  CHECK(simulate_noise(problem_of(four, linked(4)), schedule_of(four), options) == result);
}

TEST_CASE("jitter of several steps runs through the record in its order") {
  // Every second step is slow, wherever the record begins: two of the last four of eight steps.
  const SmallInstance one{{{0, 1000}}, {}};
  const StepTimes steps = simulate_steps(problem_of(one, linked(1)), schedule_of(one), 8);
  NoiseOptions options = noise_of(0, 50);
  options.jitter = {1, 2};
  CHECK(simulate_steps_noise(steps, options).samples == std::vector<Nanoseconds>(50, Nanoseconds{1500}));
  // Ops of one step jitter together: 1000 + 500, or twice that.
  const SmallInstance two{{{0, 1000}, {0, 500}}, {}};
  for (const Nanoseconds sample : simulate_noise(problem_of(two, linked(1)), schedule_of(two), options).samples)
    CHECK((sample == Nanoseconds{1500} || sample == Nanoseconds{3000}));
}

TEST_CASE("a jitter of ones changes nothing of the noise, and one factor is a scale") {
  Random random{9};
  const Problem problem = random_problem(random);
  const Schedule schedule = random_schedule(random, problem);
  NoiseOptions options = noise_of(0.1, 20);
  const NoiseResult plain = simulate_noise(problem, schedule, options);
  options.jitter = {1, 1, 1};
  CHECK(simulate_noise(problem, schedule, options) == plain);
  const SmallInstance one{{{0, 1000}}, {}};
  NoiseOptions thrice = noise_of(0, 3);
  thrice.jitter = {3};
  CHECK(simulate_noise(problem_of(one, linked(1)), schedule_of(one), thrice).p99 == Nanoseconds{3000});
}

TEST_CASE("any number of threads gives the same result") {
  Random random{5};
  RandomProblemOptions options;
  options.most_ops = 60;
  options.unit_ns = 1000;
  for (int i = 0; i < 10; ++i) {
    const Problem problem = random_problem(random, options);
    const Schedule schedule = random_schedule(random, problem);
    NoiseOptions noise = noise_of(0.3, 37, 9);
    const NoiseResult alone = simulate_noise(problem, schedule, noise);
    for (const unsigned threads : {2U, 5U, 100U}) {
      noise.threads = threads;
      CHECK(simulate_noise(problem, schedule, noise) == alone);
    }
    noise.seed = 10;
    if (ns(alone.p50) > 0) CHECK(simulate_noise(problem, schedule, noise).samples != alone.samples);
  }
}

TEST_CASE("noise by type leaves the other types alone, and what takes no time takes none") {
  GraphBuilder builder{"types"};
  builder.add({.name = "a", .type = "Conv", .times = {{"gpu", Nanoseconds{1000}}}});
  builder.add({.name = "b", .type = "Relu", .times = {{"gpu", Nanoseconds{5000}}}});
  builder.add({.name = "c", .type = "Input", .times = {{"gpu", Nanoseconds{0}}}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(3))};
  const Schedule apart = placed({0, 1, 2});
  NoiseOptions options = noise_of(0, 100);
  options.noise.by_type = {{"Conv", 0.1}};
  CHECK(simulate_noise(problem, apart, options).deviation == 0);  // b takes 5000 and hides a
  CHECK(simulate_noise(problem, placed({0, 0, 0}), options).deviation > 0);
  options.noise = {.usual = 0.5, .by_type = {{"Conv", 0}, {"Relu", 0}}};
  CHECK(simulate_noise(problem, apart, options).samples == std::vector<Nanoseconds>(100, Nanoseconds{5000}));
}

TEST_CASE("two equal schedules win half of the time each, and a shorter one always wins") {
  const SmallInstance two{{{0, 1000}, {1, 1000}}, {}};
  const Problem problem = problem_of(two, linked(2));
  const NoiseOptions options = noise_of(0.3, 1000);
  const NoiseComparison same = compare_noise(problem, placed({0, 1}), placed({0, 1}), options);
  CHECK(same.probability == 0.5);
  CHECK(same.ties == 1000);
  // The devices are alike, and both schedules draw the same times for the same ops.
  CHECK(compare_noise(problem, placed({0, 1}), placed({1, 0}), options).ties == 1000);
  // The larger of two times is always less than their sum.
  const NoiseComparison better = compare_noise(problem, placed({0, 1}), placed({0, 0}), options);
  CHECK(better.wins == 1000);
  CHECK(better.probability == 1);
  CHECK(better.low == doctest::Approx(1 / (1 + 1.96 * 1.96 / 1000)).epsilon(1e-6));  // Wilson's bound at p = 1
  CHECK(better.high == 1);
  CHECK(compare_noise(problem, placed({0, 0}), placed({0, 1}), options).probability == 0);
}

TEST_CASE("the interval is Wilson's") {
  NoiseResult a, b;
  for (int i = 0; i < 10; ++i) {
    a.samples.emplace_back(i < 7 ? 1 : 3);
    b.samples.emplace_back(2);
  }
  const NoiseComparison comparison = compare_noise(a, b);
  CHECK(comparison.probability == 0.7);
  // Wilson's interval with n = 10, z^2 = 3.8415:
  // (0.7 + 3.8415 / 20 +- 1.95996 sqrt(0.21 / 10 + 3.8415 / 400)) / (1 + 0.38415)
  CHECK(comparison.low == doctest::Approx(0.396778).epsilon(1e-5));
  CHECK(comparison.high == doctest::Approx(0.892209).epsilon(1e-5));
}

TEST_CASE("percentiles are those of the nearest rank") {
  std::vector<Nanoseconds> numbers;
  for (int i = 10; i > 0; --i) numbers.emplace_back(i * 10);
  CHECK(percentile(numbers, 50) == Nanoseconds{50});   // the 5th of 10
  CHECK(percentile(numbers, 95) == Nanoseconds{100});  // ceil(9.5) = 10
  CHECK(percentile(numbers, 90) == Nanoseconds{90});   // the 9th
  CHECK(percentile(numbers, 1) == Nanoseconds{10});    // ceil(0.1) = 1
  CHECK(percentile({Nanoseconds{7}}, 99) == Nanoseconds{7});
  CHECK_THROWS_AS(percentile({}, 50), InputError);
  CHECK_THROWS_AS(percentile({Nanoseconds{7}}, 0), InputError);
  CHECK_THROWS_AS(compare_noise({}, {}), InputError);
  CHECK_THROWS_AS(compare_noise({.samples = {Nanoseconds{7}}}, {}), InputError);
}

std::string refused(const NoiseOptions& options, std::int64_t time = 1) {
  const SmallInstance one{{{0, time}}, {}};
  return test::code_of([&] { simulate_noise(problem_of(one, linked(1)), schedule_of(one), options); });
}

TEST_CASE("noise that makes no sense is refused") {
  CHECK(refused(noise_of(0.1, 0)) == "range");
  CHECK(refused(noise_of(-0.1, 1)) == "range");
  CHECK(refused(noise_of(std::nan(""), 1)) == "range");
  CHECK(refused(noise_of(10.5, 1)) == "range");
  CHECK(refused({.noise = {.by_type = {{"Conv", 0.1}}}, .samples = 1}) == "unknown-type");
  CHECK(refused(noise_of(10, 1), std::int64_t{1} << 60) == "too-large");
  CHECK(refused(noise_of(10, 1)) == "");
  for (const double factor : {0.0, -1.0, 1001.0, std::nan("")})
    CHECK(refused({.jitter = {1, factor}, .samples = 1}) == "range");
  CHECK(refused({.jitter = {1, 4}, .samples = 1}, std::int64_t{1} << 60) == "too-large");
}

}  // namespace
}  // namespace trainyard::test
