#include "trainyard/place/load/load_placers.hpp"

#include <utility>

#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/place/load/greedy_fill.hpp"
#include "trainyard/place/load/ideal_dp.hpp"
#include "trainyard/place/load/load_program.hpp"
#include "trainyard/place/load/load_search.hpp"
#include "trainyard/solve/integer_program.hpp"

namespace trainyard {
namespace {

std::function<bool()> stop_of(const LoadPlacerOptions& options, double share = 1) {
  return [&options, share] { return options.effort.late(share); };
}

Schedule schedule_of(const Problem& problem, const LoadProblem& load, const Contraction& blocks, const Split& split) {
  if (!split.found())
    throw NoPlacementError(
        {.code = "no-split",
         .message = "the model does not fit: no contiguous split respects memory, device kinds and colocation groups",
         .help = "use placer 'load-search', which also tries splits that are not contiguous"});
  return ordered_schedule(problem, placement_of(split, blocks, load));
}

}  // namespace

Schedule place_ideals(const Problem& problem, const LoadPlacerOptions& options) {
  const LoadProblem load = load_problem(problem, options.model);
  const Contraction blocks = contract(load);
  try {
    return schedule_of(
        problem, load, blocks,
        ideal_split(load, blocks, {.sum = options.sum, .most_ideals = options.most_ideals, .stop = stop_of(options)}));
  } catch (const InputError& error) {
    if (error.findings().front().code != "too-many-ideals") throw;
    return place_linear(problem, options);
  }
}

Schedule place_linear(const Problem& problem, const LoadPlacerOptions& options) {
  const LoadProblem load = load_problem(problem, options.model);
  const Contraction blocks = contract(load);
  return schedule_of(
      problem, load, blocks,
      dpl(load, blocks, {.sum = options.sum, .stop = stop_of(options)}, options.drawn_orders, options.seed));
}

Schedule place_load_search(const Problem& problem, const LoadPlacerOptions& options) {
  const LoadProblem load = load_problem(problem, options.model);
  return ordered_schedule(problem, search_load(load, {.goal = {options.sum, options.goal},
                                                      .evaluations = options.evaluations,
                                                      .seed = options.seed,
                                                      .stop = stop_of(options)})
                                       .placement);
}

Schedule place_load_program(const Problem& problem, bool contiguous, std::int64_t nodes,
                            const LoadPlacerOptions& options) {
  if (!has_cbc()) solve_by_cbc({});  // throws MissingError before the work
  const LoadProblem load = load_problem(problem, options.model);
  LoadProgramOptions program{
      .goal = {options.sum, options.goal}, .contiguous = contiguous, .nodes = nodes, .most_columns = 3'000};
  if (contiguous) {
    const Contraction blocks = contract(load);
    const Split split = dpl(load, blocks, {.sum = options.sum, .stop = stop_of(options)});
    if (split.found()) program.start = placement_of(split, blocks, load);
  } else {
    program.start = search_load(load, {.goal = program.goal,
                                       .evaluations = options.evaluations,
                                       .seed = options.seed,
                                       .stop = stop_of(options, 0.5)})  // the other half is for the program
                        .placement;
  }
  const bool late = options.effort.late();
  if (program.start && (late || load_program_columns(load, program) > program.most_columns))
    return ordered_schedule(problem, *program.start);
  if (late) throw OutOfTime{};
  program.seconds = options.effort.seconds_left();
  program.stop = stop_of(options);
  const LoadProgramResult result = solve_load_program(load, program);
  if (!result.placement)
    throw NoPlacementError(
        {.code = "no-split",
         .message = result.infeasible ? "no placement respects memory, device kinds and colocation groups"
                                      : "the integer program found no placement",
         .help = "use placer 'load-search', which finds the placement that exceeds the memory least"});
  return ordered_schedule(problem, *result.placement);
}

Schedule place_greedy_fill(const Problem& problem, const LoadPlacerOptions& options) {
  return ordered_schedule(problem, greedy_fill(load_problem(problem, options.model)));
}

Schedule ordered_schedule(const Problem& problem, Placement placement) {
  Schedule fifo{.placement = std::move(placement)};
  Schedule ranked = fifo;
  ranked.policy = Policy::priority;
  ranked.priority.assign(problem.op_count(), 0);
  double priority = 0;
  for (const OpId op : by_descending_rank(problem, upward_ranks(problem, MeanCosts{problem})))
    ranked.priority[op] = priority--;
  Evaluator evaluator{problem};
  return evaluator.outcome(ranked) < evaluator.outcome(fifo) ? ranked : fifo;
}

}  // namespace trainyard
