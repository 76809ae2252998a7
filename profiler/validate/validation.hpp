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
  int rounds = 6;  // at least; more, up to `most_rounds`, until enough steps are undisturbed
  int most_rounds = 200;
  int warm = 2, measured = 3;             // steps of a round
  std::int64_t most_ns = 20'000'000'000;  // no round begins later
  double noise_floor = 0;                 // of the machine, as a share: the larger of its swings
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

/// Measurements that the total error was found from.
enum class Basis : std::uint8_t {
  steps,  // steps that nothing else disturbed
  ops,    // too few of them: the schedule simulated with each op's own times, without what other work took of them
  none,
};
std::string_view name_of(Basis basis);

/// A schedule's prediction against its runs. The total error is of steps as they are when nobody looks (makespan());
/// the others are of steps whose ops were timed. Errors are (predicted - measured) / measured.
struct Validation {
  std::string name;
  Nanoseconds predicted;
  Nanoseconds p10, p50, p90;  // of the clock's makespans: of clean steps, where there are any
  Nanoseconds measured;       // the median of clean steps, or what the basis says
  Nanoseconds plain;  // the median of steps in which no op is timed, where timing makes them longer; 0: not known
  double total_error = 0;
  Basis basis = Basis::none;
  /// Each step simulated with its own op times, and with the gap between ops of this run: the median of these errors.
  double structural_error = 0, structural_p10 = 0, structural_p90 = 0;
  double structural_tolerance = 0;  // by the mean op; 0: none, the ops are too short
  /// Errors that come from the op times alone, and from the times of transfers alone.
  double op_time_error = 0, link_error = 0;
  std::size_t steps = 0;             // measured, all of them
  std::size_t clean_steps = 0;       // whose times count
  std::size_t structural_steps = 0;  // that can be replayed
  std::size_t net_ops = 0;           // of the basis `ops`: those that other work disturbed in nearly every step
  std::map<std::string, std::size_t> dropped;  // steps that are not clean, by reason
  Nanoseconds mean_op;
  IdMap<DeviceId, double> gap_ns;  // between ops of a device that need not wait: a step's mean, its median
  bool order_kept = true, outputs_agree = true;
  std::string order_fault;
  double noise_floor = 0;
  IdMap<DeviceId, Bytes> predicted_peak, measured_peak;
  Bytes allocated;
  std::vector<OpError> ops;      // by falling |predicted - measured|
  std::vector<LinkError> links;  // in use
  Timeline timeline;             // that takes `measured`: of the median step, or what the basis says
  Verdict verdict = Verdict::inconclusive;
  std::string why;  // in words

  /// What the total error is of.
  Nanoseconds makespan() const { return plain.count > 0 ? plain : measured; }
  std::size_t dropped_steps() const { return steps - clean_steps; }
};

/// Tolerance of the structural error: 1 % where ops take 100 us on average, 3 % from 10 us; 0: shorter ones are not
/// judged.
double structural_tolerance(Nanoseconds mean_op);

}  // namespace trainyard
