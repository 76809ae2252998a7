#include "trainyard/study/compare.hpp"

#include <algorithm>
#include <exception>

#include "trainyard/core/error.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/judge/orders.hpp"

namespace trainyard {
namespace {

bool is_better(const Run& a, const Run& b) {
  return a.summary.fits != b.summary.fits ? a.summary.fits : a.value() < b.value();
}

bool is_stopped(const CompareOptions& options) { return options.place.stop && options.place.stop(); }

/// Runs the placer with each seed and returns the median run as a row.
ComparisonRow run_repeats(const Problem& problem, const Placer& placer, const CompareOptions& options,
                          const LowerBound& bound) {
  std::vector<Run> runs;
  std::vector<SeedRun> seeds;
  double search_seconds = 0;
  for (std::uint64_t i = 0; i == 0 || (i < options.repeats && !is_stopped(options)); ++i) {
    PlaceOptions place = options.place;
    place.seed += i;
    const Run& run = runs.emplace_back(run_placer(problem, placer, place, bound));
    seeds.push_back({place.seed, run.value(), run.summary.fits, !run.schedule.rewrites.empty(), *run.search_seconds});
  }
  for (const SeedRun& seed : seeds) search_seconds += seed.search_seconds / static_cast<double>(seeds.size());
  sort_with(runs, is_better);
  Run& middle = runs[(runs.size() - 1) / 2];
  for (const Run& each : runs) {  // seeds may lead to different graphs
    if (each.summary.bound.value < middle.summary.bound.value) set_bound(middle.summary, each.summary.bound);
    if (middle.completions) middle.completions->bound = std::min(middle.completions->bound, each.completions->bound);
  }
  ComparisonRow row{.run = std::move(middle)};
  row.run.search_seconds = search_seconds;
  if (options.repeats > 1) row.repeats = std::move(seeds);
  return row;
}

/// The row of a given schedule. If there are repeats, it counts as one repeat.
ComparisonRow run_given(const Problem& problem, const NamedSchedule& given, const CompareOptions& options,
                        const LowerBound& bound) {
  ComparisonRow row{.run = run_schedule(problem, given.schedule, bound)};
  row.run.placer = given.name;
  row.run.objective = options.place.objective;
  if (row.run.objective == Objective::completion) row.run.completions = completions(row.run.problem, row.run.timeline);
  if (options.repeats > 1)
    row.repeats = {
        {.value = row.run.value(), .fits = row.run.summary.fits, .rewritten = !given.schedule.rewrites.empty()}};
  return row;
}

void keep_numbers(Run& run, const Problem& problem) {
  run.problem = problem;
  run.schedule = Schedule{.placement = {}, .rewrites = std::move(run.schedule.rewrites)};
  run.timeline.ops = {};
  run.timeline.transfers = {};
}

/// Whether the bound, of the problem's own graph, holds for all runs of the row.
bool is_bounded(const ComparisonRow& row, Nanoseconds bound) {
  return row.run.schedule.rewrites.empty() &&
         std::ranges::all_of(row.repeats, [&](const SeedRun& seed) { return !seed.rewritten && seed.value >= bound; });
}

/// Sorts the rows, shares the highest bound among them, and sets the comparisons with the best row.
void rank(std::vector<ComparisonRow>& rows, LowerBound highest) {
  sort_with(rows, [](const ComparisonRow& a, const ComparisonRow& b) { return is_better(a.run, b.run); });
  for (const ComparisonRow& row : rows)
    if (row.run.schedule.rewrites.empty() && row.run.summary.bound.value > highest.value)
      highest = row.run.summary.bound;
  for (ComparisonRow& row : rows) {
    if (is_bounded(row, highest.value)) raise_bound(row.run.summary, highest);
    const Run& best = rows.front().run;
    row.ratio_to_best = relative_to(row.run.value(), best.value());
    if (row.run.noise) row.beats_best = compare_noise(*row.run.noise, *best.noise);
  }
}

}  // namespace

std::vector<PlacerChoice> usual_placers() {
  std::vector<PlacerChoice> usual;
  for (const Placer& placer : placers())
    if (!placer.trains) usual.emplace_back(placer);
  return usual;
}

const Run& Comparison::best() const {
  if (!rows.empty()) return rows.front().run;
  Finding finding{.code = "no-schedule",
                  .message = "no placer gave a schedule for " + model + " on " + problem.cluster().name(),
                  .help = "Comparison::skipped holds the reason of each placer"};
  for (const SkippedPlacer& each : skipped) finding.message += "; " + each.placer + ": " + each.why;
  throw InputError{std::move(finding)};
}

LowerBound Comparison::lower_bound() const {
  if (rows.empty()) return best().bound();
  const auto value = [](const ComparisonRow& row) { return row.run.bound().value; };
  return std::ranges::min_element(rows, {}, value)->run.bound();
}

Comparison compare(const Problem& problem, const std::vector<PlacerChoice>& placers, const CompareOptions& options) {
  if (options.place.objective == Objective::max_load)
    refuse("objective", "a comparison ranks by makespan or completion, not by load", "use one of these objectives");
  const auto check_name = [](const auto& row) {
    if (row.name.empty()) refuse("name", "a placer or schedule to compare has no name", "give each a name");
  };
  std::ranges::for_each(placers, check_name);
  std::ranges::for_each(options.schedules, check_name);
  Comparison comparison{.model = problem.graph().name(), .problem = problem};
  const LowerBound bound = options.bound ? *options.bound : best_lower_bound(problem);
  Evaluator evaluator{problem};
  std::size_t best = 0;  // index of the best row so far
  for (std::size_t i = 0; i < placers.size() + options.schedules.size() && !is_stopped(options); ++i) {
    const NamedSchedule* given = i < placers.size() ? nullptr : &options.schedules[i - placers.size()];
    if (!given && options.on_placer) options.on_placer(placers[i], i, placers.size());
    std::vector<ComparisonRow>& rows = comparison.rows;
    const std::string& name = given ? given->name : placers[i].name;
    try {
      rows.push_back(given ? run_given(problem, *given, options, bound)
                           : run_repeats(problem, placers[i], options, bound));
    } catch (const std::exception& error) {  // other placers may still succeed
      const auto* input = dynamic_cast<const InputError*>(&error);
      comparison.skipped.push_back({name, error.what(), input ? input->findings().front().help : ""});
      continue;
    }
    Run& run = rows.back().run;
    if (run.schedule.rewrites.empty()) {
      rows.back().best_order = best_order(evaluator, run.schedule).outcome;
    } else {
      Evaluator of_rewritten{run.problem};
      rows.back().best_order = best_order(of_rewritten, run.schedule).outcome;
    }
    if (options.noise) run.noise = simulate_noise(run.problem, run.schedule, *options.noise);
    if (options.slow_one) {
      std::optional<Stragglers>& slow = rows.back().slow_one;
      slow = simulate_stragglers(run.problem, run.schedule, *options.slow_one, options.place.threads);
      if (slow && options.place_again && !given)
        place_again(*slow, problem, run.problem, run.schedule,
                    [&](const Problem& known) { return place_by(placers[i], known, options.place); });
    }
    if (rows.size() == 1) continue;
    const bool leads = is_better(run, rows[best].run);
    if (!options.keep_runs) keep_numbers(leads ? rows[best].run : run, problem);
    if (leads) best = rows.size() - 1;
  }
  rank(comparison.rows, bound);
  std::vector<Stragglers*> stragglers;
  for (ComparisonRow& row : comparison.rows)
    if (row.slow_one && row.run.summary.fits) stragglers.push_back(&*row.slow_one);
  set_regrets(stragglers);
  return comparison;
}

}  // namespace trainyard
