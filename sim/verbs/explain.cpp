#include "print/explain.hpp"

#include "interrupt.hpp"
#include "runs.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "verbs.hpp"
#include "what_ifs.hpp"

namespace trainyard::program {
namespace {

constexpr std::size_t kOccupants = 3;

struct ExplainVerb {
  ProblemOptions inputs;
  ScheduleOptions schedule;
  std::vector<AskedWhatIf> faster, larger;
  bool place_again = false;
  std::size_t top = 10;

  void declare(OptionSet& set) {
    set.operands(inputs.models, "MODEL", "a built-in network (trainyard models), or a file",
                 "trainyard explain resnet50 --cluster 4xV100");
    inputs.declare_machine(set);
    schedule.declare(set, "the schedule to explain, in place of a placer", false);
    declare_seed(set, schedule.seed, "seed for the placer's random numbers (default: 1)");
    set.values("--faster", faster, "NAME=2x",
               "what if a device, a kind of device, a link or the links between two devices (gpu0-gpu1) were faster; "
               "repeatable; several at once with commas",
               parse_what_if);
    set.values("--larger", larger, "NAME=2x", "what if a device, or a kind, had more memory; repeatable",
               parse_what_if);
    set.flag("--place-again", place_again, "also runs the placer on each changed machine");
    set.number("--top", top, "number of rows in each table (default: 10)");
    schedule.search.declare(set);
    inputs.training.declare(set);
    set.check([this] {
      if (place_again && !schedule.file.empty())
        throw UsageError("--place-again needs a placer, but --schedule is given",
                         "give --placer in place of --schedule");
    });
  }

  int run(Console& console) const {
    const ScheduleSource source = schedule.source(false, console);
    const LoadedProblem loaded = make_problem(inputs, console);
    const Problem& problem = loaded.problem;
    std::vector<WhatIf> what_ifs;
    for (const AskedWhatIf& asked : faster) what_ifs.push_back(with_more_speed(asked, problem.cluster()));
    for (const AskedWhatIf& asked : larger) what_ifs.push_back(with_more_memory(asked, problem.cluster()));
    std::optional<InterruptGuard> guard;
    if (source.placer) guard.emplace();  // an interrupt ends the placer, which returns its best so far
    RunResult run = make_run(loaded, source, console);
    console.progress("");
    for (const std::string& warning : unused_warnings(run)) console.warn(warning);

    if (what_ifs.empty()) what_ifs = usual_what_ifs(run.problem, run.timeline, 2);
    std::function<Nanoseconds(const ChangedMachine&)> again;
    if (place_again)
      again = [&](const ChangedMachine& changed) {
        const Problem other = problem.with_machine(changed.cluster, changed.costs);
        PlaceOptions options = source.options;
        options.batch = loaded.batch;
        if (source.quick) options.budget = kQuickBudget;
        const Schedule placed = source.placer->place(other, options);
        return simulated_makespan(scheduled_problem(other, placed), placed);
      };
    Explanation explanation = explain(run.problem, run.schedule, run.timeline);
    std::vector<Wait> waits = longest_waits(run.problem, run.schedule, run.timeline, explanation, top, kOccupants);
    std::vector<WhatIfResult> results = simulate_what_ifs(run.problem, run.schedule, what_ifs, again);
    console.progress("");
    const ExplainResult result{std::move(run), std::move(explanation), std::move(waits), std::move(results), top};
    console.print(console.json() ? explain_json(result, console.warnings()) : explain_text(result, console.format()));
    if (result.run.summary.fits) return kDone;
    console.complain(out_of_memory_error(result.run));
    return kAnswerIsNo;
  }
};

}  // namespace

const Verb kExplain{"explain", "explains why a step takes as long as it does, and what a better machine would save",
                    "trainyard explain resnet50 --cluster 4xV100 --placer etf", declare<ExplainVerb>};

}  // namespace trainyard::program
