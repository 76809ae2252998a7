#include "coarse.hpp"
#include "interrupt.hpp"
#include "objective.hpp"
#include "run_common.hpp"
#include "search.hpp"
#include "trainyard/io/schedule_file.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {

int run_place(const Arguments& arguments, Console& console) {
  if (arguments.operands.empty())
    throw UsageError("place needs a MODEL", "for example: trainyard place resnet50 --cluster 4xV100");
  const Objective objective = chosen_objective(arguments);
  if (objective == Objective::max_load) only_operand(arguments, "MODEL under --objective max-load", "");
  const bool any = arguments.placer.empty() && arguments.policy.empty();
  const Placer& chosen = any ? usual_placer(objective) : chosen_placer(arguments);
  const std::optional<CoarsenOptions> how = chosen_coarsening(arguments);
  const Placer placer = how ? coarsened(chosen, *how) : chosen;
  PlaceOptions options = place_options(arguments, placer);
  options.objective = objective;
  add_search_options(options, arguments, placer.searches, placer.name, console);

  Outputs outputs;
  for (const std::string& word : arguments.operands) outputs.reads(word);
  for (const std::string& input : {arguments.cluster, arguments.costs}) outputs.reads(input);
  std::optional<RunResult> run;
  outputs.writes(arguments.output, "--output", [&run](std::ostream& out) {
    const SchedulePrediction prediction{run->summary.makespan, run->summary.bound.value, run->summary.fits};
    write_schedule(run->schedule, run->problem, &prediction, out);
  });
  add_pictures(outputs, arguments, run);
  refuse_json_beside(outputs, console);
  outputs.check();

  Machine machine = load_machine(arguments);
  LoadedModel model = load_models(arguments);
  warn_notes(model, console);
  for (const std::string& note : machine.notes) console.warn(note);
  const Problem problem{std::move(model.graph), std::move(machine.cluster), machine.costs};
  std::optional<InterruptGuard> guard;
  if (placer.searches) guard.emplace();  // an interrupt ends the search with what it has
  run = run_placer(model.name, problem, best_lower_bound(problem), placer, options);
  console.progress("");
  if (objective == Objective::max_load) judge_by_load(*run, is_workload(arguments.operands.front()));
  if (objective == Objective::completion || arguments.operands.size() > 1) judge_by_completion(*run);
  run->by_completion = objective == Objective::completion;
  const int exit = finish_run(*run, "place", outputs, console);
  return interrupted() ? kInterrupted : exit;
}

}  // namespace trainyard::program
