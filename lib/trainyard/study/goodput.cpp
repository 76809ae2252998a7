#include "trainyard/study/goodput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/core/parallel.hpp"
#include "trainyard/core/portable_math.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/core/units.hpp"

namespace trainyard {
namespace {

/// e^x - 1. For |x| <= 1/2 by its Taylor series to x^18, whose remainder is below 2^-60 of the value.
double portable_expm1(double x) {
  if (std::abs(x) > 0.5) return portable_exp(x) - 1;
  double sum = 1;
  for (int n = 18; n > 1; --n) sum = sum * x / n + 1;
  return sum * x;
}

void check_failures(const Failures& failures, Nanoseconds step) {
  if (!(failures.mtbf_hours > 0 && failures.mtbf_hours <= 1e9))
    refuse("range",
           fmt::format("the mean time between failures, {} h, must be more than 0 and at most 10^9 h",
                       failures.mtbf_hours),
           "give the time of one device: 50,000 h is one failure in 5.7 years");
  if (failures.devices == 0)
    refuse("range", "a job on 0 devices cannot fail", "give the number of devices, at least 1");
  if (step <= Nanoseconds{0})
    refuse("range", "a step that takes no time has no goodput", "give a step of at least 1 ns");
  for (const auto& [time, what] :
       {std::pair{failures.checkpoint, "a checkpoint"}, std::pair{failures.restart, "a restart"}})
    if (time < Nanoseconds{0}) refuse("range", fmt::format("{} cannot take a negative time", what), "give 0 or more");
}

/// Parameters of the renewal process, in seconds.
struct Renewal {
  double mtbf, tau, delta, restart;

  double interval() const { return tau + delta; }
};

Renewal renewal_of(const Failures& failures, Nanoseconds step, std::size_t steps) {
  check_failures(failures, step);
  if (steps == 0)
    refuse("range", "with a checkpoint every 0 steps no work is done", "give an interval of at least 1 step");
  const Renewal renewal{failures.job_mtbf_s(), seconds(step) * static_cast<double>(steps), seconds(failures.checkpoint),
                        seconds(failures.restart)};
  const double needed = renewal.restart + renewal.interval();
  if (renewal.restart > kMostRestart * renewal.mtbf)
    refuse(
        "too-often",
        fmt::format("one of {} devices fails every {:.3g} s, and a restart takes {:.3g} s: it hardly ever succeeds",
                    failures.devices, renewal.mtbf, renewal.restart),
        fmt::format("restart faster: a restart may take at most {:.0f} times the time between failures", kMostRestart));
  if (needed > kMostIntervals * renewal.mtbf)
    refuse("too-often",
           fmt::format("one of {} devices fails every {:.3g} s, and restart, interval and checkpoint take {:.3g} s: "
                       "hardly any interval is ever completed",
                       failures.devices, renewal.mtbf, needed),
           fmt::format("checkpoint after fewer steps, or faster: together they may take at most {:.0f} times the time "
                       "between failures",
                       kMostIntervals));
  return renewal;
}

/// Root u = 1 + W(-e^(-1 - d)) of u + e^(-u - d) - 1 = 0. The left side is convex and increasing in u, so that Newton's
/// iterates from the right of the root decrease to it.
double best_share(double d) {
  if (d <= 0) return 0;
  double u = 1;
  for (int i = 0; i < 200; ++i) {
    const double below = portable_expm1(-(u + d));  // minus the slope
    const double next = u + (u + below) / below;
    if (!(next < u)) break;
    u = next;
  }
  return u;
}

/// Sums over cycles, in seconds. With u the useful and w the wall time of a cycle, o = w - u.
struct CycleSums {
  double useful = 0, checkpoint = 0, lost = 0, restart = 0;
  double squares_u = 0, products = 0, squares_o = 0;  // sums of u^2, u o, o^2
  std::size_t cycles = 0;

  double wall() const { return useful + checkpoint + lost + restart; }
  void add(const CycleSums& other) {
    useful += other.useful;
    checkpoint += other.checkpoint;
    lost += other.lost;
    restart += other.restart;
    squares_u += other.squares_u;
    products += other.products;
    squares_o += other.squares_o;
    cycles += other.cycles;
  }
};

constexpr std::size_t kBlock = std::size_t{1} << 16;
constexpr std::size_t kRound = 16;  // blocks between two checks of the error

double time_to_failure(Random& random, double mtbf) {
  return -mtbf * portable_log((static_cast<double>(random.next() >> 12) + 0.5) * 0x1p-52);
}

CycleSums run_cycles(const Renewal& renewal, std::uint64_t seed, std::size_t block, std::size_t cycles) {
  Random random = Random::stream(seed, block);
  CycleSums sums;
  sums.cycles = cycles;
  for (std::size_t cycle = 0; cycle < cycles; ++cycle) {
    const double worked = time_to_failure(random, renewal.mtbf);
    const double kept = std::floor(worked / renewal.interval());
    double restart = 0;
    if (renewal.restart > 0) {
      double next = time_to_failure(random, renewal.mtbf);
      for (; next < renewal.restart; next = time_to_failure(random, renewal.mtbf)) restart += next;
      restart += renewal.restart;
    }
    const double useful = kept * renewal.tau, over = worked + restart - useful;
    sums.useful += useful;
    sums.checkpoint += kept * renewal.delta;
    sums.lost += worked - kept * renewal.interval();
    sums.restart += restart;
    sums.squares_u += useful * useful;
    sums.products += useful * over;
    sums.squares_o += over * over;
  }
  return sums;
}

GoodputEstimate estimate_of(const CycleSums& sums) {
  const double wall = sums.wall(), n = static_cast<double>(sums.cycles);
  GoodputEstimate estimate{{sums.useful / wall, sums.checkpoint / wall, sums.lost / wall, sums.restart / wall}};
  const double g = estimate.goodput.useful;
  // u - g w = (1 - g) u - g o, which avoids cancellation if g is near 1.
  const double rest = (wall - sums.useful) / wall;
  const double squares =
      std::max(0.0, rest * rest * sums.squares_u - 2 * g * rest * sums.products + g * g * sums.squares_o);
  estimate.standard_error = std::sqrt(squares * n / (n - 1)) / wall;
  estimate.cycles = sums.cycles;
  return estimate;
}

}  // namespace

Goodput daly_goodput(const Failures& failures, Nanoseconds step, std::size_t steps) {
  const Renewal renewal = renewal_of(failures, step, steps);
  Goodput goodput;
  goodput.useful = renewal.tau / (renewal.mtbf * portable_exp(renewal.restart / renewal.mtbf) *
                                  portable_expm1(renewal.interval() / renewal.mtbf));
  goodput.checkpoint = goodput.useful * renewal.delta / renewal.tau;
  goodput.restart = -portable_expm1(-renewal.restart / renewal.mtbf);
  goodput.lost = std::max(0.0, 1 - goodput.useful - goodput.checkpoint - goodput.restart);
  return goodput;
}

BestInterval best_interval(const Failures& failures, Nanoseconds step) {
  check_failures(failures, step);
  const double mtbf = failures.job_mtbf_s(), delta = seconds(failures.checkpoint);
  const double half = delta / (2 * mtbf);
  BestInterval best;
  best.exact_s = mtbf * best_share(delta / mtbf);
  best.young_s = std::sqrt(2 * delta * mtbf);
  best.higher_order_s = half < 1 ? best.young_s * (1 + std::sqrt(half) / 3 + half / 9) - delta : mtbf;
  const double whole = std::floor(best.exact_s / seconds(step));
  best.steps = static_cast<std::size_t>(std::clamp(whole, 1.0, 1e15));
  if (whole >= 1 && whole < 1e15 &&
      daly_goodput(failures, step, best.steps + 1).useful > daly_goodput(failures, step, best.steps).useful)
    ++best.steps;
  else
    (void)renewal_of(failures, step, best.steps);
  return best;
}

GoodputEstimate simulate_goodput(const Failures& failures, Nanoseconds step, std::size_t steps,
                                 const GoodputOptions& options) {
  const Renewal renewal = renewal_of(failures, step, steps);
  if (options.cycles && *options.cycles < 2)
    refuse("range", "one cycle has no standard error", "give at least 2 cycles");
  const std::size_t most = options.cycles.value_or(kMostCycles);
  CycleSums sums;
  for (std::size_t first = 0; sums.cycles < most; first += kRound) {
    std::vector<CycleSums> blocks(std::min(kRound, (most - sums.cycles + kBlock - 1) / kBlock));
    const std::size_t before = sums.cycles;
    parallel_for(options.threads, blocks.size(), [&](std::size_t i) {
      blocks[i] = run_cycles(renewal, options.seed, first + i, std::min(kBlock, most - before - i * kBlock));
    });
    for (const CycleSums& block : blocks) sums.add(block);
    if (options.cycles || sums.useful == 0) continue;
    const GoodputEstimate now = estimate_of(sums);
    if (now.standard_error <= kGoodputError * now.goodput.useful) break;
  }
  return estimate_of(sums);
}

}  // namespace trainyard
