#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"
#include "trainyard/simulate/noise.hpp"
#include "trainyard/study/summary.hpp"

namespace trainyard {

/// Completion time of each model of a graph with several models.
struct Completions {
  std::vector<std::pair<std::string, Nanoseconds>> models = {};
  Nanoseconds total{};  // sum over the models
  Nanoseconds bound{};  // no schedule has a smaller sum
};
Completions completions(const Problem& problem, const Timeline& timeline);

/// Lower bound on max_load() over all placements that fit in memory or, if `fits` is false, over all placements.
LowerBound max_load_bound(const Problem& problem, bool fits = true);

/// A schedule, its timeline, and their summary.
struct Run {
  std::string placer = {};  // name for people; empty if the schedule names no placer
  Problem problem;          // with the schedule's rewrites applied
  Schedule schedule;
  Timeline timeline;
  RunSummary summary;
  std::optional<double> search_seconds = {};    // wall-clock time of the placer
  Objective objective = Objective::makespan;    // determines value() and bound()
  std::optional<LowerBound> load_bound = {};    // under Objective::max_load
  std::optional<Completions> completions = {};  // under Objective::completion, or if requested
  bool measured = false;  // measured on devices: times need not obey the simulation's rules; no critical path
  std::optional<NoiseResult> noise = {};  // if requested

  /// Makespan, largest load or sum of completions, by the objective; the lower bound on it over all schedules of
  /// `problem`; and the relative_gap() of the two.
  Nanoseconds value() const;
  LowerBound bound() const;
  double gap() const { return relative_gap(value(), bound().value); }
  /// The run fits, and its value is the bound.
  bool optimal() const { return summary.fits && value() == bound().value; }
};

/// Run with its summary. `problem` has the schedule's rewrites applied. Throws InputError as summarize() does.
Run run_of(Problem problem, Schedule schedule, Timeline timeline, const LowerBound& bound);

/// Simulates the schedule. `bound` is best_lower_bound(problem) if the caller has it, since computing it may take
/// longer than the simulation. If the schedule rewrites the problem further, the run's bound is that of the rewritten
/// graph. If the schedule does not fit in memory and its makespan is below that bound, the run's bound also covers
/// schedules that do not fit. Throws InputError as scheduled_problem() and simulate() do.
Run run_schedule(const Problem& problem, Schedule schedule, const std::optional<LowerBound>& bound = {});

/// Runs the placer and simulates its schedule. The run's objective is PlaceOptions::objective. A better bound proven by
/// the placer's search replaces `bound`. Throws what the placer throws, and as run_schedule() does if the placer's
/// schedule is not valid.
Run run_placer(const Problem& problem, const Placer& placer, const PlaceOptions& options = {},
               const std::optional<LowerBound>& bound = {});

}  // namespace trainyard
