#include "explain.hpp"

#include "interrupt.hpp"
#include "run_common.hpp"
#include "search.hpp"
#include "trainyard/core/units.hpp"
#include "trainyard/io/schedule_file.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

constexpr std::size_t kOccupants = 3;

RunResult scheduled_run(const Arguments& arguments, const std::string& model, const Problem& problem) {
  Schedule schedule = read_schedule(arguments.schedule, problem);
  const Problem whole = scheduled_problem(problem, schedule);
  Timeline timeline = simulate(whole, schedule);
  RunSummary summary = summarize(whole, schedule, timeline, best_lower_bound(whole));
  return {
      model,       problem.cluster().name(), schedule.placer, whole, std::move(schedule), std::move(timeline), summary,
      std::nullopt};
}

}  // namespace

int run_explain(const Arguments& arguments, Console& console) {
  const std::string& word = only_operand(arguments, "MODEL", "trainyard explain resnet50 --cluster 4xV100");
  const bool from_file = !arguments.schedule.empty();
  if (from_file && (!arguments.placer.empty() || !arguments.parameters.empty() || !arguments.seed.empty()))
    throw UsageError("--schedule gives the schedule: no placer is asked", "give either --schedule or --placer");
  if (from_file && arguments.place_again)
    throw UsageError("--place-again asks the placer, and --schedule names none",
                     "give --placer in place of --schedule");
  const Placer* placer = from_file ? nullptr : &chosen_placer(arguments);
  PlaceOptions options = placer ? place_options(arguments, *placer) : PlaceOptions{};
  add_search_options(options, arguments, placer && placer->searches, placer ? placer->name : "a schedule from a file",
                     console);
  const std::int64_t top = arguments.top.empty() ? 10 : whole_number(arguments.top, "--top", 1);

  Machine machine = load_machine(arguments);
  std::vector<WhatIf> what_ifs = asked_what_ifs(arguments, machine.cluster);
  LoadedModel model = load_model(word, arguments);
  warn_notes(model, console);
  for (const std::string& note : machine.notes) console.warn(note);
  const Problem problem{std::move(model.graph), std::move(machine.cluster), machine.costs};
  if (problem.op_count() == 0)
    throw UsageError(word + ": the graph has no ops, so there is nothing to explain", "give a graph with ops");
  std::optional<InterruptGuard> guard;
  if (placer && placer->searches) guard.emplace();  // an interrupt ends the search with what it has
  RunResult run = placer ? run_placer(model.name, problem, best_lower_bound(problem), *placer, options)
                         : scheduled_run(arguments, model.name, problem);
  console.progress("");
  for (const std::string& warning : unused_warnings(run.problem, run.summary)) console.warn(warning);

  if (arguments.faster.empty() && arguments.larger.empty()) what_ifs = usual_what_ifs(run.problem, run.timeline, 2);
  std::function<Nanoseconds(const ChangedMachine&)> place_again;
  if (arguments.place_again)
    place_again = [&](const ChangedMachine& changed) {
      const Problem other = problem.with_machine(changed.cluster, changed.costs);
      const Schedule schedule = placer->place(other, options);
      return simulated_makespan(scheduled_problem(other, schedule), schedule);
    };
  Explanation explanation = explain(run.problem, run.schedule, run.timeline);
  std::vector<Wait> waits =
      longest_waits(run.problem, run.schedule, run.timeline, explanation, static_cast<std::size_t>(top), kOccupants);
  std::vector<WhatIfResult> results = simulate_what_ifs(run.problem, run.schedule, what_ifs, place_again);
  console.progress("");
  const ExplainResult result{std::move(run), std::move(explanation), std::move(waits), std::move(results),
                             static_cast<std::size_t>(top)};
  console.print(console.json() ? explain_json(result, console.warnings()) : explain_text(result));
  if (interrupted()) return kInterrupted;
  if (result.run.summary.fits) return kDone;
  console.complain(out_of_memory_error(result.run));
  return kAnswerIsNo;
}

}  // namespace trainyard::program
