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
  std::string dropped;                             // why its times are invalid; empty: valid
  bool scattered = false;                          // most of it was lost between ops: its structure is not judged
};

/// All observations of a schedule's runs.
struct MeasuredRuns {
  const Schedule* schedule;
  std::vector<MeasuredStep> steps;
  std::vector<std::pair<Nanoseconds, Timeline>> timelines;  // of some steps, with their makespans
  IdMap<DeviceId, std::vector<double>> gaps;                // nanoseconds: mean gap of each step that had any
  std::vector<Nanoseconds> plain;                           // makespans of plain steps, in which no op was timed
};

/// The problem with co-run op times (CostModel::co_run) for the number of devices that the schedule uses, if the costs
/// are for one device. A validation predicts from it.
Problem beside_others(const Problem& problem, const Schedule& schedule);

MeasuredStep measured_step(const StepTrace& trace);

/// Drops steps in which ops took far longer than usual ("slow-op").
void drop_slow_steps(MeasuredRuns& runs);

/// Computes errors, tables and the verdict. Order, outputs and peaks must be set already.
void judge(const Problem& problem, const MeasuredRuns& runs, const ValidateOptions& options, Validation& result);

}  // namespace trainyard
