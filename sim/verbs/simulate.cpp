#include "trainyard/simulate/simulate.hpp"

#include "interrupt.hpp"
#include "runs.hpp"
#include "trainyard/io/formats/timeline_file.hpp"
#include "trainyard/report/run_csv.hpp"
#include "verbs.hpp"

namespace trainyard::program {
namespace {

struct SimulateVerb {
  ProblemOptions inputs;
  ScheduleOptions schedule;
  std::size_t steps = 0;
  NoiseChoice noise;
  PictureOptions pictures;
  std::string csv;
  struct {
    Output ops, transfers, links, memory;
  } tables;
  Output output;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL...",
                 "one or more models, run together: built-in networks (trainyard models) or files",
                 "trainyard simulate resnet50 --cluster 4xV100");
    inputs.declare_machine(set);
    schedule.declare(set, "the schedule to run, in place of a placer", true);
    declare_seed(set, schedule.seed, "seed for the random numbers of placer and noise (default: 1)");
    set.number("--steps", steps, "simulates N steps in sequence, which depend on each other only by their updates");
    schedule.search.declare(set, "threads for the search and for runs with noise");
    noise.declare(set);
    inputs.training.declare(set);
    pictures.declare(set);
    set.text("--csv", csv, "STEM",
             "writes tables of the run: STEM.ops.csv, STEM.transfers.csv, STEM.links.csv, STEM.memory.csv");
    set.check([this, &set] { name_tables(set.inputs()); });
    set.output("-o,--output", output, "the timeline; .gz compresses, - is standard output", "json");
  }

  int run(Console& console) const {
    const std::optional<NoiseOptions> scatter = noise.options(schedule.seed, schedule.search);
    const ScheduleSource source = schedule.source(scatter.has_value(), console);
    const LoadedProblem loaded = make_problem(inputs, console);
    std::optional<InterruptGuard> guard;
    if (source.placer) guard.emplace();  // an interrupt ends the placer, which returns its best so far
    RunResult run = make_run(loaded, source, console);
    console.progress("");
    if (inputs.models.size() > 1) run.completions = completions(run.problem, run.timeline);
    std::optional<RunResult> all_steps;
    try {
      if (scatter) run.noise = simulate_noise(run.problem, run.schedule, *scatter);
      if (steps > 0) {
        run.steps = simulate_steps(run.problem, run.schedule, steps);
        if (scatter) run.steps_noise = simulate_steps_noise(*run.steps, *scatter);
        // Only the page shows this bound, which takes long to compute for many ops.
        all_steps = run_of_steps(run, pictures.report ? best_lower_bound(run.steps->problem, run.steps->timeline.fits())
                                                      : run.summary.bound);
      }
    } catch (const InputError& error) {
      if (scatter) throw UsageError(error, noise.noise ? "--noise" : "--jitter");
      throw;
    }
    const Run& shown = all_steps ? *all_steps : run;
    const auto write_output = [&](std::ostream& out) {
      write_timeline(shown.timeline, shown.problem, shown.schedule.placement, out);
    };
    std::vector<Writing> writings{{output, write_output}};
    add_pictures(writings, pictures, shown);
    writings.push_back({tables.ops, [&](std::ostream& out) { write_ops_csv(shown, out); }});
    writings.push_back({tables.transfers, [&](std::ostream& out) { write_transfers_csv(shown, out); }});
    writings.push_back({tables.links, [&](std::ostream& out) { write_links_csv(shown, out); }});
    writings.push_back({tables.memory, [&](std::ostream& out) { write_memory_csv(shown, out); }});
    const int exit = finish_run(run, "simulate", writings, console);
    if (exit != kDone || shown.summary.fits) return exit;
    console.complain(out_of_memory_error(shown));
    return kAnswerIsNo;
  }

 private:
  void name_tables(const std::vector<std::string>& read) {
    if (csv.empty()) return;
    if (csv == "-")
      throw UsageError("--csv -: the four tables need four files", "give the stem of their names, as in --csv run");
    const auto named = [this](const char* table) { return Output{csv + "." + table + ".csv", "--csv"}; };
    tables = {named("ops"), named("transfers"), named("links"), named("memory")};
    check_outputs({tables.ops, tables.transfers, tables.links, tables.memory}, read);
  }
};

}  // namespace

const Verb kSimulate{"simulate", "predicts the time and the memory of one step",
                     "trainyard simulate resnet50 --cluster 4xV100 --placer heft", declare<SimulateVerb>};

}  // namespace trainyard::program
