#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

struct ValidateOptions {
  int rounds = 6;  // at least; up to `most_rounds` until enough steps are undisturbed
  int most_rounds = 200;
  int warm = 2, measured = 3;             // steps per round
  std::int64_t most_ns = 20'000'000'000;  // no round begins after this
  double noise_floor = 0;                 // noise of the machine, as a share of the time
  double total_tolerance = 0.20;
  std::size_t least_clean_steps = 10;
};

enum class Verdict : std::uint8_t { pass, fail, inconclusive };
std::string_view name_of(Verdict verdict);

/// Predicted and measured time of an op.
struct OpError {
  OpId op;
  Nanoseconds predicted, measured;  // mean of the clean steps
};
struct LinkError {
  DeviceId from, to;
  std::int64_t transfers = 0;
  Nanoseconds predicted, measured;  // sums over a step
};

/// Measurements that the total error is based on.
enum class Basis : std::uint8_t {
  steps,  // undisturbed steps
  ops,    // too few of them: the schedule simulated with each op's own times, net of other work
  none,
};
std::string_view name_of(Basis basis);

/// A schedule's prediction against its runs. The total error refers to steps as they run untimed (makespan()), the
/// other errors to steps whose ops were timed. Errors are (predicted - measured) / measured.
struct Validation {
  std::string name;
  Nanoseconds predicted;
  Nanoseconds p10, p50, p90;  // of measured makespans; of clean steps only, if there are any
  Nanoseconds measured;       // median of clean steps, or as `basis` says
  Nanoseconds plain;          // median of steps in which no op is timed, if timing lengthens steps; 0: unknown
  double total_error = 0;
  Basis basis = Basis::none;
  /// Error of each step simulated with its own op times and the run's gaps between ops: median, 10 % and 90 % quantile.
  double structural_error = 0, structural_p10 = 0, structural_p90 = 0;
  double structural_tolerance = 0;  // by the mean op; 0: not judged, the ops are too short
  /// Errors due to op times alone, and to transfer times alone.
  double op_time_error = 0, link_error = 0;
  std::size_t steps = 0;                       // all measured steps
  std::size_t clean_steps = 0;                 // steps with valid times
  std::size_t structural_steps = 0;            // steps that can be replayed
  std::size_t net_ops = 0;                     // with basis `ops`: ops that other work disturbed in nearly every step
  std::map<std::string, std::size_t> dropped;  // steps that are not clean, by reason
  Nanoseconds mean_op;
  IdMap<DeviceId, double> gap_ns;  // gap after an op whose successor is ready: mean of a step, median of steps
  bool order_kept = true, outputs_agree = true;
  std::string order_fault;
  double noise_floor = 0;
  IdMap<DeviceId, Bytes> predicted_peak, measured_peak;
  Bytes allocated;
  std::vector<OpError> ops;      // by descending |predicted - measured|
  std::vector<LinkError> links;  // links with transfers
  Timeline timeline;             // with makespan `measured`: of the median step, or as `basis` says
  Verdict verdict = Verdict::inconclusive;
  std::string why;  // explanation of the verdict

  /// The time that the total error refers to.
  Nanoseconds makespan() const { return plain.count > 0 ? plain : measured; }
  std::size_t dropped_steps() const { return steps - clean_steps; }
};

/// Tolerance of the structural error by mean op time: 1 % from 100 us, 3 % from 10 us; 0: shorter ops are not judged.
double structural_tolerance(Nanoseconds mean_op);

}  // namespace trainyard
