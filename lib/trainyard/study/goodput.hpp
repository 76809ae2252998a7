#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Failure model of a job for its goodput: useful time over wall time. The job saves a checkpoint after every tau of
/// work and goes back to the last checkpoint at each failure.
///
///     M          mean time between failures of the job: mtbf / devices. Devices fail independently with exponential
///                times, any failure stops the job, and the least of n exponentials of mean mtbf has mean mtbf / n
///     tau        work between two checkpoints: a whole number of steps
///     delta      time of a checkpoint, during which nothing else runs
///     R          time of a restart, which can fail too
///
///     T_w        = M e^(R/M) (e^((tau + delta)/M) - 1) T_s / tau              wall time of T_s of work
///     goodput    = T_s / T_w = tau / (M e^(R/M) (e^((tau + delta)/M) - 1))
///     checkpoint = goodput delta / tau,    restart = 1 - e^(-R/M),    lost = 1 - goodput - checkpoint - restart
///
///     tau_best   = M (1 + W(-e^(-1 - delta/M)))                    W: principal branch of the Lambert W function
///     tau_daly   = sqrt(2 delta M) (1 + sqrt(delta/2M) / 3 + (delta/2M) / 9) - delta      if delta < 2 M, else M
///     tau_young  = sqrt(2 delta M)
///
/// J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22 (2006): T_w,
/// tau_best as the root of its derivative, tau_daly; J. W. Young, "A first order approximation to the optimum
/// checkpoint interval", CACM 17 (1974): tau_young. Not modelled: correlated failures, failures that stop only a part
/// of the job, checkpoints that overlap with work, and a limited number of spare devices.
struct Failures {
  double mtbf_hours = 0;    // mean time between failures of one device
  std::size_t devices = 1;  // a failure of any of them stops the job
  Nanoseconds checkpoint{};
  Nanoseconds restart{};  // from a failure until work resumes: detection, new devices, loading the checkpoint

  double job_mtbf_s() const { return mtbf_hours * 3600 / static_cast<double>(devices); }
};

/// Shares of the wall time; they add up to 1.
struct Goodput {
  double useful = 1;      // the goodput
  double checkpoint = 0;  // completed checkpoints
  double lost = 0;        // work and a started checkpoint after the last completed checkpoint before a failure
  double restart = 0;
};

/// Goodput by Daly's closed form, with a checkpoint every `steps` steps of `step`. Throws InputError: "range" for an
/// mtbf that is not positive or above 10^9 h, no device, a step that is not positive, 0 steps, or a negative time;
/// "too-often" if R > kMostRestart M or R + tau + delta > kMostIntervals M, since almost no interval would complete.
Goodput daly_goodput(const Failures& failures, Nanoseconds step, std::size_t steps);
inline constexpr double kMostRestart = 4, kMostIntervals = 20;

/// The checkpoint interval with the largest goodput.
struct BestInterval {
  std::size_t steps = 1;                   // tau_best rounded down or up to whole steps, by goodput; ties: down
  double exact_s = 0;                      // tau_best
  double higher_order_s = 0, young_s = 0;  // tau_daly, tau_young
};
/// At least 1 step. Throws as daly_goodput() does for that number of steps.
BestInterval best_interval(const Failures& failures, Nanoseconds step);

struct GoodputOptions {
  /// Number of cycles, each from the end of a restart to the end of the next. If none is given, cycles are added until
  /// the standard error is at most kGoodputError times the goodput, up to kMostCycles.
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

/// Goodput by Monte Carlo simulation of a renewal process. In a cycle, the job runs for Y until it fails, and floor(Y /
/// (tau + delta)) intervals are kept. Then it restarts until one restart completes its R without a failure. With u the
/// useful and w the wall time of a cycle, and n the number of cycles, the goodput is g and its standard error by the
/// delta method is se:
///
///     g = sum u / sum w,    se = sqrt(sum (u - g w)^2 n / (n - 1)) / sum w
///
/// Block b of 2^16 cycles uses the random stream (seed, b). Sums are taken by block, in the order of the blocks. Throws
/// as daly_goodput() does, and InputError ("range") for fewer than 2 cycles.
GoodputEstimate simulate_goodput(const Failures& failures, Nanoseconds step, std::size_t steps,
                                 const GoodputOptions& options = {});

}  // namespace trainyard
