#include "trainyard/simulate/simulate.hpp"

#include "run_common.hpp"
#include "trainyard/io/schedule_file.hpp"
#include "trainyard/io/timeline_file.hpp"
#include "usage.hpp"
#include "verbs.hpp"

namespace trainyard::program {

int run_simulate(const Arguments& arguments, Console& console) {
  const std::string& word = only_operand(arguments, "MODEL", "trainyard simulate resnet50 --cluster 4xV100");
  const bool from_file = !arguments.schedule.empty();
  if (from_file && (!arguments.placer.empty() || !arguments.parameters.empty() || !arguments.seed.empty()))
    throw UsageError("--schedule gives the schedule: no placer is asked", "give either --schedule or --placer");
  const Placer* placer = from_file ? nullptr : &chosen_placer(arguments);
  const PlaceOptions options = placer ? place_options(arguments, *placer) : PlaceOptions{};

  Outputs outputs;
  for (const std::string& input : {word, arguments.cluster, arguments.schedule}) outputs.reads(input);
  std::optional<RunResult> run;
  outputs.writes(arguments.output, "--output", [&run](std::ostream& out) {
    write_timeline(run->timeline, run->problem, run->schedule.placement, out);
  });
  add_pictures(outputs, arguments, run);
  refuse_json_beside(outputs, console);
  outputs.check();

  Cluster cluster = make_cluster(load_cluster(arguments));
  LoadedModel model = load_model(word, arguments);
  warn_notes(model, console);
  const Problem problem{std::move(model.graph), std::move(cluster), load_costs(arguments)};
  const LowerBound bound = best_lower_bound(problem);
  if (placer) {
    run = run_placer(model.name, problem, bound, *placer, options);
  } else {
    Schedule schedule = read_schedule(arguments.schedule, problem);
    Timeline timeline = simulate(problem, schedule);
    RunSummary summary = summarize(problem, schedule, timeline, bound);
    run = RunResult{model.name,          problem.cluster().name(), schedule.placer,    problem,
                    std::move(schedule), std::move(timeline),      std::move(summary), std::nullopt};
  }
  return finish_run(*run, "simulate", outputs, console);
}

}  // namespace trainyard::program
