#include "objective.hpp"

#include <array>
#include <string>

#include "trainyard/load/from_problem.hpp"
#include "usage.hpp"

namespace trainyard::program {

Objective chosen_objective(const Arguments& arguments) {
  static const std::array<std::string, 2> names{"makespan", "max-load"};
  if (arguments.objective.empty()) return Objective::makespan;
  return one_of(arguments.objective, names, "--objective") == "max-load" ? Objective::max_load : Objective::makespan;
}

void judge_by_load(RunResult& run, bool published_memory) {
  const LoadProblem load = load_problem(run.problem);
  LoadResult result{.value = run.summary.max_load};
  result.bound = Nanoseconds{(load_lower_bound(load).count + 999) / 1000};  // loads are whole nanoseconds
  if (published_memory) {
    const LoadReport report = evaluate_load(load, run.schedule.placement);
    run.summary.fits = report.excess.count == 0;
  }
  run.load = result;
}

}  // namespace trainyard::program
