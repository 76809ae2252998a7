#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/backend.hpp"
#include "trainyard/core/id.hpp"

namespace trainyard {

struct ValidateOptions {
  int rounds = 6;
  int warm = 2, measured = 3;             // steps of a round
  std::int64_t most_ns = 20'000'000'000;  // no round begins later
  double noise_floor = 0;                 // of the machine, as a share: the larger of its swings
  double structural_tolerance = 0.03, total_tolerance = 0.20;
  std::size_t least_clean_steps = 10;
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

/// A schedule's prediction against its runs. Errors are (predicted - measured) / measured.
struct Validation {
  std::string name;
  Nanoseconds predicted;
  Nanoseconds p10, p50, p90;  // of the measured makespans
  double total_error = 0;
  /// Each clean step simulated with its own op times: the median of these errors.
  double structural_error = 0;
  /// What the predicted op times change against the measured ones, and predicted transfers against none.
  double op_time_error = 0, link_error = 0;
  std::size_t clean_steps = 0, dropped_steps = 0;
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
};

/// Runs schedules of one problem in turns, `warm` + `measured` steps each, so that slow changes of the machine meet all
/// of them alike, and holds each prediction against its runs.
///
/// inconclusive: fewer than `least_clean_steps` undisturbed steps, or a noise floor above 15 %. fail: an order or an
/// output that is wrong, a structural error beyond its tolerance, a total error beyond its own. Outputs: the loss and
/// all parameters after the first step are those of a run on one device, bit for bit.
std::vector<Validation> validate(Backend& backend, const Problem& problem, const Workload& workload,
                                 const std::vector<std::pair<std::string, Schedule>>& schedules,
                                 const ValidateOptions& options);

/// How well predictions order schedules.
struct Ranking {
  std::size_t pairs = 0;  // that differ by at least 10 % when measured
  double agreement = 1;   // share of them that are predicted in the right order
  double regret = 0;      // of the schedule predicted fastest: measured / best measured - 1
};
Ranking rank(const std::vector<Validation>& validations);

}  // namespace trainyard
