#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Goodput of a job whose devices fail: useful time over wall time, where the job saves its state every tau of work and
/// goes back to the last saved state at each failure.
///
///     M          mean time between failures of the job: mtbf / devices. Each device fails by an exponential law of its
///                own, any failure stops all, and the least of n exponentials of mean mtbf is one of mean mtbf / n
///     tau        work between two checkpoints: a whole number of steps
///     delta, R   time of a checkpoint, in which nothing else runs; of a restart, which can fail too
///
///     T_w        = M e^(R/M) (e^((tau + delta)/M) - 1) T_s / tau              wall time of T_s of work
///     goodput    = T_s / T_w = tau / (M e^(R/M) (e^((tau + delta)/M) - 1))
///     checkpoint = goodput delta / tau,    restart = 1 - e^(-R/M),    lost = 1 - goodput - checkpoint - restart
///
///     tau_best   = M (1 + W(-e^(-1 - delta/M)))                               W: Lambert's, its principal branch
///     tau_daly   = sqrt(2 delta M) (1 + sqrt(delta/2M) / 3 + (delta/2M) / 9) - delta      where delta < 2 M, else M
///     tau_young  = sqrt(2 delta M)
///
/// J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22 (2006): T_w,
/// tau_best as the root of its derivative, tau_daly; J. W. Young, "A first order approximation to the optimum
/// checkpoint interval", CACM 17 (1974): tau_young. What it does not see: failures that come in groups or stop only a
/// part of the job, checkpoints that go on beside the work, spares that run out.
struct Failures {
  double mtbf_hours = 0;    // of one device
  std::size_t devices = 1;  // any of which stops the job
  Nanoseconds checkpoint{};
  Nanoseconds restart{};  // from the failure until work goes on: detection, new devices, the state read back

  double job_mtbf_s() const { return mtbf_hours * 3600 / static_cast<double>(devices); }
};

/// Shares of the wall time; they add up to 1.
struct Goodput {
  double useful = 1;      // the goodput
  double checkpoint = 0;  // of checkpoints that were completed
  double lost = 0;        // work, and checkpoints begun, since the last checkpoint before a failure
  double restart = 0;
};

/// By Daly's closed form, with a checkpoint every `steps` steps of `step`. Throws InputError ("range"): an mtbf
/// outside of 0 to 10^9 h, no device, no positive step, no steps, a negative time; "too-often": R above kMostRestart M,
/// or R + tau + delta above kMostIntervals M, where next to nothing is ever completed.
Goodput daly_goodput(const Failures& failures, Nanoseconds step, std::size_t steps);
inline constexpr double kMostRestart = 4, kMostIntervals = 20;

/// The checkpoint interval of the largest goodput.
struct BestInterval {
  std::size_t steps = 1;                   // tau_best's neighbour of whole steps with the larger goodput; ties: fewer
  double exact_s = 0;                      // tau_best
  double higher_order_s = 0, young_s = 0;  // tau_daly, tau_young
};
/// Throws as daly_goodput() does with its best steps, of which there is at least one.
BestInterval best_interval(const Failures& failures, Nanoseconds step);

struct GoodputOptions {
  /// Cycles from the end of a restart to the end of the next; none: until the standard error is kGoodputError of the
  /// goodput, or there are kMostCycles of them.
  std::optional<std::size_t> cycles = {};
  std::uint64_t seed = 1;
  unsigned threads = 1;  // any number gives the same result
};
inline constexpr double kGoodputError = 0.0002;
inline constexpr std::size_t kMostCycles = std::size_t{1} << 27;

struct GoodputEstimate {
  Goodput goodput;
  double standard_error = 0;  // of goodput.useful
  std::size_t cycles = 0;
};

/// Goodput by Monte Carlo, as a renewal process: in a cycle the job works for Y until it fails, of which floor(Y /
/// (tau + delta)) intervals are kept, then restarts until one takes R without failing. Goodput is the quotient of the
/// sums, useful over wall time; its error by the delta method:
///
///     g = sum u / sum w,    se = sqrt(sum (u - g w)^2 n / (n - 1)) / sum w
///
/// Block b of 2^16 cycles has the random stream (seed, b); sums are taken by block, in their order. Throws as
/// daly_goodput() does, and "range" for fewer than 2 cycles.
GoodputEstimate simulate_goodput(const Failures& failures, Nanoseconds step, std::size_t steps,
                                 const GoodputOptions& options = {});

}  // namespace trainyard
