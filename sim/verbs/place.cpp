#include <fmt/format.h>

#include "interrupt.hpp"
#include "ranks.hpp"
#include "runs.hpp"
#include "trainyard/io/formats/plan_file.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

/// Default placer of an objective.
std::string usual_placer(Objective objective) {
  return objective == Objective::max_load ? "load-search" : objective == Objective::completion ? "talos" : "auto";
}

struct PlaceVerb {
  ProblemOptions inputs;
  PlacerOptions placing;
  std::optional<CoarsenOptions> coarsening;
  Objective objective = Objective::makespan;
  std::optional<std::uint64_t> seed;
  SearchOptions search;
  PictureOptions pictures;
  Output output, plan;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL...",
                 "one or more models, run together: built-in networks (trainyard models) or files",
                 "trainyard place resnet50 --cluster 4xV100");
    inputs.declare_machine(set);
    placing.declare(set);
    declare_coarsen(set, coarsening);
    declare_objective(set, objective,
                      "what to minimize: the time of one step, the time per step of a full pipeline, or the sum of the "
                      "models' completion times (default: makespan)");
    placing.declare_policy(set);
    declare_seed(set, seed, "seed for the placer's random numbers (default: 1)");
    search.declare(set);
    inputs.training.declare(set);
    pictures.declare(set);
    set.output("-o,--output", output, "the schedule; .gz compresses, - is standard output", "json");
    set.output("--plan-out", plan, "the plan that the schedule follows; - is standard output", "json");
    set.check([this] {
      if (objective == Objective::max_load && inputs.models.size() > 1)
        throw UsageError(
            fmt::format("place takes one MODEL under --objective max-load, got also '{}'", inputs.models[1]));
    });
  }

  int run(Console& console) const {
    Ranks ranks;
    if (ranks.rank() == 0) return run(ranks, console);
    Console silent{ConsoleOptions{.json = true}};  // rank 0 prints
    return run(ranks, silent);
  }

 private:
  int run(Ranks& ranks, Console& console) const {
    ScheduleSource source{.placer = placing.placer(usual_placer(objective), coarsening)};
    source.options = placing.options(*source.placer, seed);
    source.options.objective = objective;
    // For a dnn-partitioning workload, memory is the sum of the published op sizes.
    source.options.sizes_alone = objective == Objective::max_load && is_workload(inputs.models.front());
    search.apply(source.options, source.searches(), without_search(*source.placer), source.placer->teams, console);
    source.quick = placing.is_open() && objective == Objective::makespan && !search.seconds && !search.evaluations;

    if (plan && !source.searches() && !source.placer->replicates) throw no_plan(source.placer->name);
    const LoadedProblem loaded = make_problem(inputs, console);
    if (ranks.count() > 1) join(ranks, source);
    std::optional<InterruptGuard> guard;
    if (ranks.count() == 1) guard.emplace();  // an interrupt ends the placer, which returns its best so far
    RunResult run = make_run(loaded, source, console);
    console.progress("");
    if (ranks.rank() > 0) return kDone;
    if (inputs.models.size() > 1 && !run.completions) run.completions = completions(run.problem, run.timeline);
    const auto write_output = [&](std::ostream& out) {
      const SchedulePrediction prediction{run.summary.makespan, run.summary.bound.value, run.summary.fits};
      write_schedule(run.schedule, run.problem, &prediction, out);
    };
    const bool follows_plan = run.schedule.parallel.has_value();
    const std::int64_t batch = !plan || !follows_plan ? 0
                               : loaded.batch         ? *loaded.batch
                                                      : assumed_batch(loaded.problem);
    if (plan && follows_plan && !loaded.batch)
      console.warn(
          fmt::format("'{}' does not say how many samples a step has: the plan is for {}", loaded.name, batch));
    const auto write_parallel = [&](std::ostream& out) {
      write_plan(plan_file(*run.schedule.parallel, plan_blocks(loaded.problem), batch), out);
    };
    std::vector<Writing> writings{{output, write_output}};
    if (follows_plan) writings.push_back({plan, write_parallel});
    add_pictures(writings, pictures, run);
    const int code = finish_run(run, "place", writings, console);
    if (plan && !follows_plan) throw no_plan(run.placer);  // after the schedule is written
    return code;
  }

  static UsageError no_plan(const std::string& placer) {
    return UsageError(fmt::format("--plan-out: the schedule of {} does not follow a plan", placer),
                      "give --placer plan");
  }

  /// Shares the search among all ranks.
  void join(Ranks& ranks, ScheduleSource& source) const {
    const std::string several = fmt::format("{} ranks", ranks.count());
    if (!source.placer->teams || objective == Objective::completion || coarsening)
      throw UsageError(fmt::format("{}: {} cannot share its work among ranks here", several, source.placer->name),
                       "give --placer auto or plan, without --objective completion and --coarsen; or use sweep, which "
                       "gives whole rows to ranks");
    if (search.seconds)
      throw UsageError(several + ": --time ends at a different moment on each of them",
                       "give --evaluations, which is the same on all");
    source.options.team = &ranks;
    source.options.stop = {};
    if (ranks.rank() > 0) source.options.on_progress = {};
  }
};

}  // namespace

const Verb kPlace{"place", "finds a schedule, and writes it",
                  "trainyard place resnet50 --cluster 4xV100 -o schedule.json", declare<PlaceVerb>};

}  // namespace trainyard::program
