#pragma once

#include <string>
#include <utility>
#include <vector>

#include "profiler/backend.hpp"
#include "profiler/validate/validation.hpp"

namespace trainyard {

/// One measured step of a schedule.
struct MeasuredStep {
  Nanoseconds makespan, delayed;
  IdMap<OpId, Nanoseconds> durations, lost, late;  // lost, late: as in a StepTrace
  std::string dropped;                             // why its times do not count; empty: they do
  bool scattered = false;                          // most of it was lost between ops: its structure does not count
};

/// All that is known of a schedule's runs.
struct MeasuredRuns {
  const Schedule* schedule;
  std::vector<MeasuredStep> steps;
  std::vector<std::pair<Nanoseconds, Timeline>> timelines;  // of some of them, with their makespans
  IdMap<DeviceId, std::vector<double>> gaps;                // nanoseconds: the mean of each step that had any
  std::vector<Nanoseconds> plain;                           // makespans of steps in which no op was timed
};

/// The problem with op times as they are while as many devices run as the schedule uses (CostModel::co_run), where the
/// costs were made for one: what a validation predicts from.
Problem beside_others(const Problem& problem, const Schedule& schedule);

MeasuredStep measured_step(const StepTrace& trace);

/// Drops steps whose ops took far longer than they mostly do.
void drop_slow_steps(MeasuredRuns& runs);

/// Errors, tables and the verdict; order, outputs and peaks are there already.
void judge(const Problem& problem, const MeasuredRuns& runs, const ValidateOptions& options, Validation& result);

}  // namespace trainyard
