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

/// The end of each model of a graph of several.
struct Completions {
  std::vector<std::pair<std::string, Nanoseconds>> models = {};
  Nanoseconds total{};  // the sum
  Nanoseconds bound{};  // no schedule has a smaller sum
};
Completions completions(const Problem& problem, const Timeline& timeline);

/// No placement has a smaller max_load(); unless `fits`, none has that does not fit in memory either.
LowerBound max_load_bound(const Problem& problem, bool fits = true);

/// A schedule, the timeline that follows from it, and what the two amount to.
struct Run {
  std::string placer = {};  // as people know it; empty: nobody says who made the schedule
  Problem problem;          // the scheduled one, with the schedule's rewrites applied
  Schedule schedule;
  Timeline timeline;
  RunSummary summary;
  std::optional<double> search_seconds = {};    // wall-clock time of the placer
  Objective objective = Objective::makespan;    // judged by
  std::optional<LowerBound> load_bound = {};    // under Objective::max_load
  std::optional<Completions> completions = {};  // under Objective::completion, or where asked for
  bool measured = false;  // timed on devices, not simulated: its times meet no rule, and it has no critical path
  std::optional<NoiseResult> noise = {};  // where asked for

  /// Makespan, largest load or sum of completions, by the objective; what no schedule of `problem` can beat; and the
  /// relative_gap() of the two.
  Nanoseconds value() const;
  LowerBound bound() const;
  double gap() const { return relative_gap(value(), bound().value); }
  /// The run fits, and its value is the bound.
  bool optimal() const { return summary.fits && value() == bound().value; }
};

/// The summary of the other three, beside them. `problem` is the scheduled one. Throws InputError as summarize() does.
Run run_of(Problem problem, Schedule schedule, Timeline timeline, const LowerBound& bound);

/// Simulates the schedule. `bound` is best_lower_bound(problem), where the caller has it: finding it may take longer
/// than the simulation. Where the schedule has rewrites the bound is that of the rewritten graph, and where it does not
/// fit in memory and is shorter than all that do, one that holds for it too. Throws InputError as scheduled_problem()
/// and simulate() do.
Run run_schedule(const Problem& problem, Schedule schedule, const std::optional<LowerBound>& bound = {});

/// Places and simulates; the run is judged by PlaceOptions::objective, and its bound is the placer's where that has
/// proven a better one. Throws what the placer throws, and as run_schedule() does where it gives no valid schedule.
Run run_placer(const Problem& problem, const Placer& placer, const PlaceOptions& options = {},
               const std::optional<LowerBound>& bound = {});

}  // namespace trainyard
