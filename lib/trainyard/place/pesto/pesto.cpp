#include "trainyard/place/pesto/pesto.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "trainyard/bound/lower_bounds.hpp"
#include "trainyard/core/sort_by.hpp"
#include "trainyard/place/auto/auto.hpp"
#include "trainyard/place/exact/exact.hpp"
#include "trainyard/place/judge/coarse.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/pesto/makespan_program.hpp"
#include "trainyard/place/simple/simple.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/simulation.hpp"
#include "trainyard/solve/integer_program.hpp"

namespace trainyard {
namespace {

/// The solution's ops by start, under both policies that keep an order.
std::vector<Schedule> replays(const Problem& problem, const Placement& placement, const IdMap<OpId, double>& starts,
                              double unit) {
  std::vector<OpId> order = problem.graph().topological_order();
  sort_by(order, [&](OpId op) { return std::llround(starts[op] * unit); });
  Schedule strict{.placement = placement, .policy = Policy::strict};
  Schedule priority{.placement = placement, .policy = Policy::priority};
  strict.order.assign(problem.device_count(), {});
  priority.priority.assign(problem.op_count(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    strict.order[placement[order[i]]].push_back(order[i]);
    priority.priority[order[i]] = static_cast<double>(order.size() - i);
  }
  return {strict, priority};
}

/// Tolerance between simulated times and the program's doubles: a part in a million, and 1 ns of rounding.
double slack(Nanoseconds limit) { return 1 + 1e-6 * static_cast<double>(limit.count); }

PestoResult solve_by_search(const Problem& problem, const PestoOptions& options) {
  PlaceOptions search{.seed = options.seed, .rewrites = false, .threads = options.threads, .stop = options.stop};
  search.budget.seconds = options.seconds;
  if (!options.seconds) search.budget.evaluations = options.evaluations;
  PestoResult result{.schedule = auto_place(problem, options.members, search)};
  const Outcome outcome = Evaluator{problem}.outcome(result.schedule);
  result.value = result.objective = outcome.makespan;
  result.bound =
      std::max(best_lower_bound(problem).value, result.schedule.search->lower_bound.value_or(Nanoseconds{0}));
  result.nodes = result.schedule.search->evaluations;
  result.confirmed = true;
  result.optimal = result.bound >= result.value && outcome.excess == Bytes{0};
  return result;
}

PestoResult solve_by_own(const Problem& problem, const std::optional<Schedule>& start, std::int64_t nodes,
                         const std::function<bool()>& late) {
  BranchAndBoundOptions search{
      .start = start ? &*start : nullptr, .most_nodes = static_cast<std::uint64_t>(nodes) * 100, .stop = late};
  BranchAndBoundResult found = branch_and_bound(problem, search);
  if (!found.schedule) {
    found.schedule = place_single(problem);
    found.value = simulated_makespan(problem, *found.schedule);
    found.bound = best_lower_bound(problem).value;
  }
  return {.schedule = *found.schedule,
          .value = found.value,
          .objective = found.value,
          .bound = found.bound,
          .confirmed = true,
          .optimal = found.optimal(),
          .nodes = found.nodes};
}

/// Adopts the best order that branch and bound finds for a placement whose own order is out of reach.
void repair(const Problem& problem, const Placement& placement, const std::function<bool()>& stop,
            PestoResult& result) {
  constexpr std::uint64_t kNodes = 20'000;
  const BranchAndBoundResult found =
      branch_and_bound(problem, {.upper_limit = result.value, .fixed = placement, .most_nodes = kNodes, .stop = stop});
  if (!found.schedule) return;
  result.schedule = *found.schedule;
  result.value = found.value;
}

}  // namespace

PestoResult solve_pesto(const Problem& problem, const PestoOptions& options) {
  if (options.solver == PestoSolver::cbc && !has_cbc()) solve_by_cbc({});  // throws MissingError before the work
  const bool by_cbc = options.solver == PestoSolver::cbc ||
                      (options.solver == PestoSolver::automatic && has_cbc() && problem.op_count() <= kPestoProgramOps);
  if (!by_cbc && problem.op_count() > kPestoExactOps) return solve_by_search(problem, options);
  const Effort effort{{.seconds = options.seconds}, options.stop};
  const std::function<bool()> late = [&effort] { return effort.late(); };
  std::optional<Schedule> start = best_quick_schedule(problem, late);
  if (!by_cbc) return solve_by_own(problem, start, options.nodes, late);

  PestoResult result;
  const bool has_start = start.has_value();
  if (!start) start = place_single(problem);
  const Timeline timeline = simulate(problem, *start);
  result.schedule = *start;
  result.value = result.objective = timeline.makespan;
  if (late()) return result;
  result.bound = best_lower_bound(problem).value;
  if (has_start && result.bound >= result.value) {
    result.confirmed = result.optimal = true;
    return result;
  }

  const Nanoseconds limit = has_start ? timeline.makespan : problem.horizon();
  // Keeps times within a few powers of ten of 1, and whole if they are small.
  const double unit = std::max(1.0, static_cast<double>(limit.count) / 1e4);
  const MakespanProgram program(problem, {.limit = limit, .unit_ns = unit, .most_columns = options.most_columns});
  IntegerOptions solver{.seconds = effort.seconds_left(), .nodes = options.nodes, .stop = options.stop};
  if (has_start) solver.start = program.columns_of(*start, timeline);
  const IntegerSolution solution = solve_by_cbc(program.program(), solver);
  result.nodes = static_cast<std::uint64_t>(solution.nodes);
  if (has_start && solution.status != IntegerSolution::Status::infeasible) {
    // The solver's tolerances leave a relative 10^-6 of uncertainty in its bound.
    const double proven = std::ceil(solution.bound * unit * (1 - 1e-6) - 1e-3);
    if (std::isfinite(proven) && proven > static_cast<double>(result.bound.count))
      result.bound = std::min(Nanoseconds{static_cast<std::int64_t>(proven)}, limit);
  }
  if (solution.x.empty()) return result;

  result.objective = Nanoseconds{std::llround(solution.value * unit)};
  const bool is_proven = solution.status == IntegerSolution::Status::optimal;
  const Placement placement = program.placement_of(solution.x);
  Simulation simulation(problem);
  for (Schedule& schedule : replays(problem, placement, program.starts_of(solution.x), unit)) {
    const MemoryPeaks& peaks = simulation.peaks(schedule);
    // A solution that is not proven optimal may have slack, and the simulated makespan is then shorter.
    const double off = static_cast<double>(peaks.makespan.count - result.objective.count);
    if (!peaks.fits || off > slack(limit) || (is_proven && off < -slack(limit))) continue;
    result.confirmed = true;
    if (!has_start || peaks.makespan <= result.value) {
      result.value = peaks.makespan;
      result.schedule = std::move(schedule);
    }
    break;
  }
  if (!result.confirmed && result.objective < result.value) repair(problem, placement, options.stop, result);
  result.optimal = result.bound >= result.value && simulation.peaks(result.schedule).fits;
  return result;
}

Schedule pesto(const Problem& problem, std::size_t target, const PestoOptions& options) {
  if (options.solver == PestoSolver::cbc && !has_cbc()) solve_by_cbc({});
  if (problem.op_count() <= target) {
    PestoResult result = solve_pesto(problem, options);
    result.schedule.search = {.evaluations = result.nodes, .lower_bound = result.bound};
    return result.schedule;
  }
  const Effort effort{{.seconds = options.seconds}, options.stop};
  const Coarsening coarsening = coarsen(problem, target);
  const Problem coarse = coarse_problem(problem, coarsening);
  PestoOptions solving = options;
  solving.seconds = effort.seconds_left();
  const PestoResult result = solve_pesto(coarse, solving);
  Schedule schedule = expand(problem, coarsening, coarse, result.schedule);
  if (Evaluator{problem}.outcome(schedule).excess > Bytes{0})
    if (auto quick = best_quick_schedule(problem, [&effort] { return effort.late(); })) schedule = std::move(*quick);
  schedule.search = {.evaluations = result.nodes};
  return schedule;
}

}  // namespace trainyard
