#include "trainyard/study/run.hpp"

#include <chrono>

#include "trainyard/bound/completion.hpp"
#include "trainyard/bound/load.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/models.hpp"
#include "trainyard/simulate/completion.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/throughput/from_problem.hpp"

namespace trainyard {

Completions completions(const Problem& problem, const Timeline& timeline) {
  const Models models = find_models(problem.graph());
  Completions result{.bound = completion_bound(problem, models)};
  const auto times = completion_times(models, timeline);
  for (const ModelId model : times.ids()) {
    result.models.emplace_back(models.names[model.index()], times[model]);
    result.total += times[model];
  }
  return result;
}

LowerBound max_load_bound(const Problem& problem, bool fits) {
  if (!fits) {
    ClusterSpec spec = problem.cluster().spec();
    for (Device& device : spec.devices) device.memory.reset();
    return max_load_bound(problem.with_machine(make_cluster(std::move(spec)), problem.costs()));
  }
  // Colors are colocation groups only: each placement keeps groups together, but only some placers put backward ops
  // with their forward ops. The model costs each transfer at the slowest route, no lower bound if routes differ.
  const bool alike = problem.cluster().route_classes().size() <= 1;
  const LoadBound bound = best_load_bound(load_problem(problem, {.mates = LoadMates::colors}), {}, alike);
  return {bound.name, Nanoseconds{(bound.value.count + 999) / 1000}};  // rounded up: loads are integers in nanoseconds
}

Nanoseconds Run::value() const {
  return objective == Objective::makespan   ? summary.makespan
         : objective == Objective::max_load ? summary.max_load
                                            : completions->total;
}

LowerBound Run::bound() const {
  return objective == Objective::makespan   ? summary.bound
         : objective == Objective::max_load ? *load_bound
                                            : LowerBound{"completion", completions->bound};
}

Run run_of(Problem problem, Schedule schedule, Timeline timeline, const LowerBound& bound) {
  RunSummary summary = summarize(problem, schedule, timeline, bound);
  std::string placer = schedule.placer;
  return {.placer = std::move(placer),
          .problem = std::move(problem),
          .schedule = std::move(schedule),
          .timeline = std::move(timeline),
          .summary = std::move(summary)};
}

Run run_schedule(const Problem& problem, Schedule schedule, const std::optional<LowerBound>& bound) {
  Problem scheduled = scheduled_problem(problem, schedule);
  Timeline timeline = simulate(scheduled, schedule);
  LowerBound best = bound && scheduled.rewrites() == problem.rewrites() ? *bound : best_lower_bound(scheduled);
  if (!timeline.fits() && timeline.makespan < best.value) best = best_lower_bound(scheduled, false);
  return run_of(std::move(scheduled), std::move(schedule), std::move(timeline), best);
}

Run run_placer(const Problem& problem, const Placer& placer, const PlaceOptions& options,
               const std::optional<LowerBound>& bound) {
  const auto start = std::chrono::steady_clock::now();
  Schedule schedule = place_by(placer, problem, options);
  const std::chrono::duration<double> search = std::chrono::steady_clock::now() - start;
  if (schedule.placer.empty()) schedule.placer = placer.name;
  schedule.seed = options.seed;
  Run run = run_schedule(problem, std::move(schedule), bound);
  run.placer = placer.name;
  run.search_seconds = search.count();
  if (run.schedule.search && run.schedule.search->lower_bound)
    raise_bound(run.summary, {"search", *run.schedule.search->lower_bound});
  run.objective = options.objective;
  if (run.objective == Objective::max_load) {
    run.load_bound = max_load_bound(run.problem);
    if (run.value() < run.load_bound->value) run.load_bound = max_load_bound(run.problem, false);
  }
  if (run.objective == Objective::max_load && options.sizes_alone)
    run.summary.fits = evaluate_load(load_problem(run.problem), run.schedule.placement).excess == Bytes{0};
  if (run.objective == Objective::completion) run.completions = completions(run.problem, run.timeline);
  return run;
}

}  // namespace trainyard
