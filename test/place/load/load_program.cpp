#include "trainyard/place/load/load_program.hpp"

#include <doctest/doctest.h>

#include "place/load/brute_force.hpp"
#include "support/support.hpp"
#include "throughput/sketch.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/place/load/dpl.hpp"
#include "trainyard/solve/integer_program.hpp"

using namespace trainyard;
using trainyard::test::LoadSketch;
using trainyard::test::ms;

TEST_CASE("without CBC the integer program says what is missing") {
  if (has_cbc()) return;
  CHECK_THROWS_AS(solve_load_program(test::diamond(2).problem()), MissingError);
}

TEST_CASE("an integer program: a knapsack, from a start and without one") {
  if (!has_cbc()) return test::report_skipped("this build has no CBC");
  // Maximize 5 a + 4 b + 3 c with 2 a + 3 b + c <= 3: a and c, 8.
  IntegerProgram program;
  const double worth[] = {5, 4, 3}, weight[] = {2, 3, 1};
  std::vector<LinearProgram::Term> terms;
  for (int i = 0; i < 3; ++i) {
    program.whole.push_back(program.linear.add_column(-worth[i], 0, 1));
    terms.push_back({program.whole.back(), weight[i]});
  }
  program.linear.add_row(-LinearProgram::kInfinity, 3, terms);
  for (const std::vector<double>& start : {std::vector<double>{}, std::vector<double>{0, 1, 0}}) {
    const IntegerSolution solution = solve_by_cbc(program, {.start = start});
    CHECK(solution.status == IntegerSolution::Status::optimal);
    CHECK(solution.value == doctest::Approx(-8));
    CHECK(solution.bound == doctest::Approx(-8));
  }
  program.linear.add_row(4, 5, terms);
  CHECK(solve_by_cbc(program).status == IntegerSolution::Status::infeasible);
}

TEST_CASE("the chain of 3, 6 and 3 ms on two devices: 9.5 ms contiguous, 7 ms not") {
  if (!has_cbc()) return test::report_skipped("this build has no CBC");
  const LoadProblem problem =
      LoadSketch{
          .nodes = {{.gpu = 3, .cost = .5}, {.gpu = 6, .cost = .5}, {.gpu = 3}}, .edges = {{0, 1}, {1, 2}}, .gpus = 2}
          .problem();
  const LoadProgramResult free = solve_load_program(problem);
  CHECK(free.optimal);
  CHECK(free.value == ms(7));  // {3, 3} with .5 in and .5 out; {6} too
  CHECK(free.bound <= free.value);
  CHECK(solve_load_program(problem, {.contiguous = true}).value == ms(9.5));
}

TEST_CASE("the integer program is the best of all placements, under every load and goal") {
  if (!has_cbc()) return test::report_skipped("this build has no CBC");
  Random random{31};
  for (int round = 0; round < test::rounds(60); ++round) {
    CAPTURE(round);
    const LoadProblem problem = test::random_sketch(random, round % 2 == 0 ? 6 : 4, round % 2 == 1).problem();
    const LoadOptions goal{.sum = static_cast<LoadSum>(random.below(3)),
                           .goal = static_cast<LoadGoal>(random.below(2))};
    const LoadProgramResult result = solve_load_program(problem, {.goal = goal});
    const Picoseconds best = test::best_placement(problem, goal);
    CHECK(result.infeasible == (best == kInfiniteLoad));
    CHECK(result.value == best);
    if (!result.placement) continue;
    CHECK(result.optimal);
    CHECK(result.bound <= result.value);
    // From the answer as a start, and from another placement.
    CHECK(solve_load_program(problem, {.goal = goal, .start = result.placement}).value == best);
    const Contraction blocks = contract(problem);
    const Split split = dpl(problem, blocks);
    if (!split.found()) continue;
    const LoadPlacement start = placement_of(split, blocks, problem);
    CHECK(solve_load_program(problem, {.goal = goal, .start = start}).value == best);
    CHECK(solve_load_program(problem, {.goal = goal, .contiguous = true, .start = start}).value >= best);
  }
}

TEST_CASE("a program that is too large is refused") {
  if (!has_cbc()) return test::report_skipped("this build has no CBC");
  CHECK_THROWS_AS(solve_load_program(test::diamond(2).problem(), {.most_columns = 5}), InputError);
  const std::size_t columns = load_program_columns(test::diamond(2).problem());
  // 7 columns for 4 ops on 2 devices, as the first op takes the first device; 3 tensors in and out of both; the value.
  CHECK(columns == 7 + 3 * 4 + 1);
  CHECK_NOTHROW(solve_load_program(test::diamond(2).problem(), {.most_columns = columns}));
}
