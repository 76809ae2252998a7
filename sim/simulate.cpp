#include "trainyard/simulate/simulate.hpp"

#include "interrupt.hpp"
#include "noise.hpp"
#include "objective.hpp"
#include "run_common.hpp"
#include "search.hpp"
#include "trainyard/io/schedule_file.hpp"
#include "trainyard/io/timeline_file.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {

int run_simulate(const Arguments& arguments, Console& console) {
  if (arguments.operands.empty())
    throw UsageError("simulate needs a MODEL", "for example: trainyard simulate resnet50 --cluster 4xV100");
  const bool from_file = !arguments.schedule.empty();
  if (from_file && (!arguments.placer.empty() || !arguments.parameters.empty() ||
                    (!arguments.seed.empty() && arguments.noise.empty())))
    throw UsageError("--schedule gives the schedule: no placer is asked", "give either --schedule or --placer");
  const Placer* placer = from_file ? nullptr : &chosen_placer(arguments);
  PlaceOptions options = placer ? place_options(arguments, *placer) : PlaceOptions{};
  add_search_options(options, arguments, placer && placer->searches, placer ? placer->name : "a schedule from a file",
                     console);

  const std::optional<NoiseOptions> noise = noise_options(arguments);
  const auto steps =
      arguments.steps.empty() ? 0 : static_cast<std::size_t>(whole_number(arguments.steps, "--steps", 1));

  Outputs outputs;
  for (const std::string& word : arguments.operands) outputs.reads(word);
  for (const std::string& input : {arguments.cluster, arguments.schedule, arguments.costs}) outputs.reads(input);
  std::optional<RunResult> run, all_steps;
  const std::optional<RunResult>& written = steps > 0 ? all_steps : run;
  outputs.writes(arguments.output, "--output", [&written](std::ostream& out) {
    write_timeline(written->timeline, written->problem, written->schedule.placement, out);
  });
  add_pictures(outputs, arguments, written);
  refuse_json_beside(outputs, console);
  outputs.check();

  Machine machine = load_machine(arguments);
  LoadedModel model = load_models(arguments);
  warn_notes(model, console);
  for (const std::string& note : machine.notes) console.warn(note);
  const Problem problem{std::move(model.graph), std::move(machine.cluster), machine.costs};
  const LowerBound bound = best_lower_bound(problem);
  std::optional<InterruptGuard> guard;
  if (placer && placer->searches) guard.emplace();  // an interrupt ends the search with what it has
  if (placer) {
    run = run_placer(model.name, problem, bound, *placer, options);
    console.progress("");
  } else {
    Schedule schedule = read_schedule(arguments.schedule, problem);
    const Problem whole = scheduled_problem(problem, schedule);
    Timeline timeline = simulate(whole, schedule);
    RunSummary summary = summarize(whole, schedule, timeline, bound_for(problem, whole, bound));
    run = RunResult{model.name,          problem.cluster().name(), schedule.placer,    whole,
                    std::move(schedule), std::move(timeline),      std::move(summary), std::nullopt};
  }
  if (arguments.operands.size() > 1) judge_by_completion(*run);
  if (noise) run->noise = noise_of(run->problem, run->schedule, *noise);
  if (steps > 0) {
    run->steps = simulate_steps(run->problem, run->schedule, steps);
    if (noise) run->steps_noise = noise_of(*run->steps, *noise);
    // The page shows the bound; it takes long on many ops.
    all_steps = run_of_steps(*run, arguments.report.empty() ? bound : best_lower_bound(run->steps->problem));
  }
  const int exit = finish_run(*run, "simulate", outputs, console);
  if (interrupted()) return kInterrupted;
  if (exit != kDone || !all_steps || all_steps->summary.fits) return exit;
  console.complain(out_of_memory_error(*all_steps));
  return kAnswerIsNo;
}

}  // namespace trainyard::program
