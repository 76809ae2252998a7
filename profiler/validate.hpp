#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/backend.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/cost/cost_model.hpp"

namespace trainyard {

struct ValidateOptions {
  int rounds = 6;  // at least; more, up to `most_rounds`, until enough steps are undisturbed
  int most_rounds = 200;
  int warm = 2, measured = 3;             // steps of a round
  std::int64_t most_ns = 20'000'000'000;  // no round begins later
  double noise_floor = 0;                 // of the machine, as a share: the larger of its swings
  double total_tolerance = 0.20;
  std::size_t least_clean_steps = 10;
  CostModel costs = {};  // of the problem: it is built anew, with the gaps of the run
};

enum class Verdict : std::uint8_t { pass, fail, inconclusive };
std::string_view name_of(Verdict verdict);

/// What an op adds to the error of the prediction.
struct OpError {
  OpId op;
  Nanoseconds predicted, measured;  // mean of the clean steps
};
struct LinkError {
  DeviceId from, to;
  std::int64_t transfers = 0;
  Nanoseconds predicted, measured;  // sums over a step
};

/// What the total error was found from.
enum class Basis : std::uint8_t {
  steps,  // steps that nothing else disturbed
  ops,    // too few of them: the schedule simulated with each op's own times, without what other work took of them
  none,
};

/// A schedule's prediction against its runs. Errors are (predicted - measured) / measured.
struct Validation {
  std::string name;
  Nanoseconds predicted;
  Nanoseconds p10, p50, p90;  // of the measured makespans: of clean steps, where there are any
  Nanoseconds measured;       // what the total error is of: the median of clean steps, or what the basis says
  double total_error = 0;
  Basis basis = Basis::none;
  /// Each step simulated with its own op times, and with the gap between ops of this run: the median of these errors.
  double structural_error = 0, structural_p10 = 0, structural_p90 = 0;
  double structural_tolerance = 0;  // by the mean op; 0: none, the ops are too short
  /// What the predicted op times change against the measured ones, and predicted transfers against none.
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
  Timeline timeline;             // of a typical step
  Verdict verdict = Verdict::inconclusive;
  std::string why;  // in words

  std::size_t dropped_steps() const { return steps - clean_steps; }
};

/// What a structural error may be: 1 % where ops take 100 us on average, 3 % from 10 us; 0: shorter ones are not
/// judged.
double structural_tolerance(Nanoseconds mean_op);

/// Runs schedules of one problem in turns, `warm` + `measured` steps each, so that slow changes of the machine meet all
/// of them alike, and holds each prediction against its runs.
///
/// A step's times do not count, and it is dropped with the reason, where other work took more than 1 % of it from its
/// ops or between them ("other-work"), or where ops that took over 3 times their own median make up more than 1 % of it
/// ("slow-op": a host took the core, and the guest cannot see it). Its structure is judged all the same: what was lost
/// within an op or before it is part of the time that is replayed; only not where over half of a step was lost before
/// ops.
///
/// fail: an order or an output that is wrong, a structural error beyond its tolerance, a total error beyond its own.
/// inconclusive: fewer than `least_clean_steps` steps that can be replayed; or a total error beyond its
/// tolerance that is not known well enough: by too few clean steps, or above a noise floor of 15 %. Outputs: the loss
/// and all parameters after the first step are those of a run on one device, bit for bit; on a CPU and a GPU, but for
/// rounding (outputs.hpp).
std::vector<Validation> validate(Backend& backend, const Problem& problem, const Workload& workload,
                                 const std::vector<std::pair<std::string, Schedule>>& schedules,
                                 const ValidateOptions& options);

/// The problem with op times as they are while as many devices run as the schedule uses (CostModel::co_run), where the
/// costs were made for one: what a validation predicts from.
Problem beside_others(const Problem& problem, const Schedule& schedule, const CostModel& costs);

/// How well predictions order schedules.
struct Ranking {
  std::size_t pairs = 0;  // that differ by at least 10 % when measured
  double agreement = 1;   // share of them that are predicted in the right order
  double regret = 0;      // of the schedule predicted fastest: measured / best measured - 1
  double mean_error = 0;  // of the total errors' sizes
  double worst_error = 0;
};
Ranking rank(const std::vector<Validation>& validations);

}  // namespace trainyard
