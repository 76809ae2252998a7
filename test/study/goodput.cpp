#include "trainyard/study/goodput.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"

using namespace trainyard;

namespace {

constexpr Nanoseconds kSecond{1'000'000'000};

Nanoseconds whole_seconds(std::int64_t count) { return Nanoseconds{count * kSecond.count}; }

/// Job of one device. `mtbf` (mean time between failures), `checkpoint` and `restart` are in seconds.
Failures job(double mtbf, std::int64_t checkpoint, std::int64_t restart = 0) {
  return {.mtbf_hours = mtbf / 3600, .checkpoint = whole_seconds(checkpoint), .restart = whole_seconds(restart)};
}

std::string code_of(const Failures& failures, Nanoseconds step, std::size_t steps) {
  const Finding finding = test::finding_of([&] { (void)daly_goodput(failures, step, steps); });
  CHECK(finding.code.empty() == finding.help.empty());
  return finding.code;
}

/// Wall time in s of `intervals` intervals, each repeated until no failure interrupts it, without renewal theory.
double attempted_wall(double mtbf, double interval, double restart, std::size_t intervals, std::uint64_t seed) {
  Random random{seed};
  const auto failure = [&] { return -mtbf * std::log(1 - random.uniform()); };
  double wall = 0, next = failure();  // since the start; `next` is the next failure
  for (std::size_t done = 0; done < intervals;) {
    if (next >= wall + interval) {
      wall += interval;
      ++done;
      continue;
    }
    for (bool up = false; !up;) {
      wall = next;
      next = wall + failure();
      up = next >= wall + restart;
      if (up) wall += restart;
    }
  }
  return wall;
}

TEST_CASE("the goodput is Daly's expected time, turned over") {
  // tau = 9, delta = 1, M = 100: 9 / (100 (e^0.1 - 1)) = 9 / 10.51709 = 0.855750
  const Goodput one = daly_goodput(job(100, 1), kSecond, 9);
  CHECK(one.useful == doctest::Approx(9 / (100 * std::expm1(0.1))).epsilon(1e-12));
  CHECK(one.useful == doctest::Approx(0.855750).epsilon(1e-6));
  CHECK(one.checkpoint == doctest::Approx(0.855750 / 9).epsilon(1e-6));  // 1 s of 9
  CHECK(one.restart == 0);
  CHECK(one.useful + one.checkpoint + one.lost == doctest::Approx(1).epsilon(1e-14));
  // R = 20: the share of time outside restarts is e^(-R / M) = e^-0.2.
  const Goodput restarted = daly_goodput(job(100, 1, 20), kSecond, 9);
  CHECK(restarted.useful == doctest::Approx(std::exp(-0.2) * one.useful).epsilon(1e-12));
  CHECK(restarted.restart == doctest::Approx(1 - std::exp(-0.2)).epsilon(1e-12));
}

TEST_CASE("a job of n devices fails n times as often") {
  const Failures many{.mtbf_hours = 50'000, .devices = 16'384, .checkpoint = kSecond, .restart = whole_seconds(60)};
  CHECK(many.job_mtbf_s() == doctest::Approx(10'986.328125));  // 180,000,000 s / 16,384: 3.05 h
  Failures one = many;
  one.devices = 1;
  one.mtbf_hours = 50'000.0 / 16'384;
  CHECK(daly_goodput(one, kSecond, 100).useful == doctest::Approx(daly_goodput(many, kSecond, 100).useful));
}

TEST_CASE("the best interval is Lambert's, where tau is half the time between failures by hand") {
  // With u = tau / M and d = delta / M: u = 1 - e^(-u - d) has the solution u = 1/2 for d = ln 2 - 1/2 = 0.193147.
  // M = 10,000 s gives delta = 1931.47 s and tau = 5000 s.
  Failures half = job(10'000, 0);
  half.checkpoint = Nanoseconds{1'931'471'805'599};
  CHECK(best_interval(half, kSecond).exact_s == doctest::Approx(5000).epsilon(1e-10));
  CHECK(best_interval(half, kSecond).steps == 5000);
  CHECK(best_interval(half, whole_seconds(3000)).steps == 2);  // 3000 or 6000 s
}

TEST_CASE("Young's and Daly's estimates are the optimum's first orders") {
  // delta = 2, M = 10,000: Young sqrt(40,000) = 200; Daly 200 (1 + 0.01 / 3 + 0.0001 / 9) - 2 = 198.66889
  const BestInterval best = best_interval(job(10'000, 2), kSecond);
  CHECK(best.young_s == doctest::Approx(200));
  CHECK(best.higher_order_s == doctest::Approx(198.668889).epsilon(1e-8));
  CHECK(best.exact_s == doctest::Approx(best.higher_order_s).epsilon(1e-6));
  CHECK(best_interval(job(100, 250), kSecond).higher_order_s == 100);  // Daly's estimate is M if delta > 2 M
  CHECK(best_interval(job(100, 250), kSecond).exact_s < 100);
}

TEST_CASE("no interval of a fine scan is better than the best") {
  Random random{5};
  for (int i = 0; i < 200; ++i) {
    const std::int64_t mtbf = random.between(50, 5000);
    const std::int64_t checkpoint = random.between(0, 60);
    const std::int64_t restart = random.between(0, 100);
    const Nanoseconds step{random.between(1, 5 * kSecond.count)};
    const Failures failures = job(static_cast<double>(mtbf), checkpoint, restart);
    const BestInterval best = best_interval(failures, step);
    CAPTURE(i);
    std::size_t first = 1;
    double most = 0;
    const std::size_t scanned = std::min<std::size_t>(3 * best.steps + 10, 20'000);
    for (std::size_t steps = 1; steps <= scanned; ++steps) {
      if (static_cast<double>(steps) * static_cast<double>(step.count) > 5e9 * static_cast<double>(mtbf)) break;
      const double useful = daly_goodput(failures, step, steps).useful;
      if (useful > most) {
        most = useful;
        first = steps;
      }
    }
    if (best.steps <= scanned) CHECK(first == best.steps);
    CHECK(daly_goodput(failures, step, best.steps).useful >= most);
  }
}

TEST_CASE("Monte Carlo meets the closed form within 0.1 %, and within its own error") {
  Random random{7};
  double worst = 0;
  for (int i = 0; i < 20; ++i) {
    const double mtbf = 10'000 * std::exp(4 * random.uniform());
    const std::int64_t checkpoint = random.between(1, 600);
    const std::int64_t restart = random.between(0, 1200);
    const Failures failures = job(mtbf, checkpoint, restart);
    const auto steps = static_cast<std::size_t>(random.between(1, 7200));
    const Goodput closed = daly_goodput(failures, kSecond, steps);
    const GoodputEstimate drawn = simulate_goodput(failures, kSecond, steps, {.seed = 100 + std::uint64_t(i)});
    CAPTURE(i);
    CHECK(std::abs(drawn.goodput.useful / closed.useful - 1) < 0.001);
    CHECK(drawn.standard_error <= kGoodputError * drawn.goodput.useful);
    worst = std::max(worst, std::abs(drawn.goodput.useful - closed.useful) / drawn.standard_error);
    CHECK(drawn.goodput.checkpoint == doctest::Approx(closed.checkpoint).epsilon(0.001));
    CHECK(drawn.goodput.lost == doctest::Approx(closed.lost).epsilon(0.005));
    CHECK(drawn.goodput.restart == doctest::Approx(closed.restart).epsilon(0.005));
  }
  // Largest of 20 absolute standard normal deviates: below 3 for 95 % of the seeds, below 1 for 0.05 %.
  CHECK(worst < 3);
  CHECK(worst > 1);
}

TEST_CASE("attempts one after the other take what the closed form expects") {
  // tau = 50, delta = 10, R = 20, M = 100. With 200,000 intervals, 3 standard errors are about 1 %.
  const double wall = attempted_wall(100, 60, 20, 200'000, 3);
  const Goodput closed = daly_goodput(job(100, 10, 20), kSecond, 50);
  CHECK(200'000 * 50 / wall == doctest::Approx(closed.useful).epsilon(0.01));
}

TEST_CASE("the same seed gives the same goodput on any number of threads") {
  const Failures failures = job(1000, 10, 30);
  const auto drawn = [&](unsigned threads, std::uint64_t seed) {
    return simulate_goodput(failures, kSecond, 100, {.cycles = 300'000, .seed = seed, .threads = threads});
  };
  const GoodputEstimate one = drawn(1, 1), three = drawn(3, 1);
  CHECK(one.goodput.useful == three.goodput.useful);
  CHECK(one.standard_error == three.standard_error);
  CHECK(one.cycles == 300'000);
  CHECK(drawn(1, 2).goodput.useful != one.goodput.useful);
}

TEST_CASE("the standard error is that of runs with many seeds") {
  const Failures failures = job(100, 5, 10);
  constexpr int kRuns = 200;
  double sum = 0, squares = 0, error = 0;
  for (int seed = 0; seed < kRuns; ++seed) {
    const GoodputEstimate drawn =
        simulate_goodput(failures, kSecond, 40, {.cycles = 2000, .seed = static_cast<std::uint64_t>(seed)});
    sum += drawn.goodput.useful;
    squares += drawn.goodput.useful * drawn.goodput.useful;
    error += drawn.standard_error / kRuns;
  }
  const double deviation = std::sqrt((squares - sum * sum / kRuns) / (kRuns - 1));
  CHECK(error == doctest::Approx(deviation).epsilon(0.15));  // 3 standard errors: 3 / sqrt(2 x 200) = 15 %
}

TEST_CASE("checkpoints that take no time are made after every step") {
  const BestInterval best = best_interval(job(1000, 0), kSecond);
  CHECK(best.exact_s == 0);
  CHECK(best.steps == 1);
  CHECK(daly_goodput(job(1000, 0), kSecond, 1).useful ==
        doctest::Approx(0.0005 / std::sinh(0.0005) * std::exp(-0.0005)));
}

TEST_CASE("what cannot be is refused with a remedy") {
  CHECK(code_of(job(0, 1), kSecond, 1) == "range");
  CHECK(code_of(job(std::nan(""), 1), kSecond, 1) == "range");
  CHECK(code_of(job(1e300, 1), kSecond, 1) == "range");
  CHECK(code_of({.mtbf_hours = 1, .devices = 0}, kSecond, 1) == "range");
  CHECK(code_of(job(100, -1), kSecond, 1) == "range");
  CHECK(code_of(job(100, 1, -1), kSecond, 1) == "range");
  CHECK(code_of(job(100, 1), Nanoseconds{0}, 1) == "range");
  CHECK(code_of(job(100, 1), kSecond, 0) == "range");
  CHECK(code_of(job(100, 1), kSecond, 1999) == "");  // tau + delta = 2000 = 20 M, the limit
  CHECK(code_of(job(100, 1), kSecond, 2000) == "too-often");
  CHECK(code_of(job(100, 1, 401), kSecond, 1) == "too-often");
  CHECK_THROWS_AS((void)best_interval(job(1, 30), kSecond), InputError);
  CHECK_THROWS_AS((void)simulate_goodput(job(100, 1), kSecond, 1, {.cycles = 1}), InputError);
}

}  // namespace
