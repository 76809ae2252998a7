#include "objective.hpp"

#include <array>
#include <string>
#include <utility>

#include "trainyard/bound/completion.hpp"
#include "trainyard/bound/load.hpp"
#include "trainyard/load/from_problem.hpp"
#include "trainyard/simulate/completion.hpp"
#include "trainyard/transform/models.hpp"
#include "usage.hpp"

namespace trainyard::program {

Objective chosen_objective(const Arguments& arguments) {
  static const std::array<std::string, 3> names{"makespan", "max-load", "completion"};
  if (arguments.objective.empty()) return Objective::makespan;
  const std::string& word = one_of(arguments.objective, names, "--objective");
  return word == "max-load" ? Objective::max_load : word == "completion" ? Objective::completion : Objective::makespan;
}

void judge_by_load(RunResult& run, bool published_memory) {
  const LoadProblem load = load_problem(run.problem);
  LoadResult result{.value = run.summary.max_load};
  // The model has one cost for all routes, the slowest: what it says of transfers bounds nothing where they differ.
  const bool alike = run.problem.cluster().route_classes().size() <= 1;
  const LoadBound bound = best_load_bound(load, {}, alike);
  result.bound = Nanoseconds{(bound.value.count + 999) / 1000};  // loads are whole nanoseconds
  result.bound_name = bound.name;
  if (published_memory) {
    const LoadReport report = evaluate_load(load, run.schedule.placement);
    run.summary.fits = report.excess.count == 0;
  }
  run.load = result;
}

void judge_by_completion(RunResult& run) {
  const Models models = find_models(run.problem.graph());
  CompletionResult result{.bound = completion_bound(run.problem, models)};
  const auto times = completion_times(models, run.timeline);
  for (const ModelId model : times.ids()) {
    result.models.emplace_back(models.names[model.index()], times[model]);
    result.total += times[model];
  }
  run.completion = std::move(result);
}

const Placer& usual_placer(Objective objective) {
  return find_placer(objective == Objective::max_load     ? "load-search"
                     : objective == Objective::completion ? "talos"
                                                          : "heft");
}

}  // namespace trainyard::program
