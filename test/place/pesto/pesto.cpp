#include "trainyard/place/pesto/pesto.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "place/exact/layered.hpp"
#include "place/instances.hpp"
#include "simulate/best_schedule.hpp"
#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/exact/branch_and_bound.hpp"
#include "trainyard/place/exact/exact.hpp"
#include "trainyard/place/pesto/makespan_program.hpp"
#include "trainyard/place/simple/simple.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/solve/integer_program.hpp"

namespace trainyard::test {
namespace {

SmallInstance fork_join(std::int64_t bytes) {
  return {{{0, 2}, {0, 3}, {0, 3}, {0, 1}}, {{0, {1}, bytes}, {0, {2}, bytes}, {1, {3}, bytes}, {2, {3}, bytes}}};
}

/// Optimum of the integer program, without a schedule to start from.
double value_of(const Problem& problem) {
  const MakespanProgram program(problem, {.limit = problem.horizon()});
  const IntegerSolution solution = solve_by_cbc(program.program());
  CHECK(solution.status == IntegerSolution::Status::optimal);
  return solution.value;
}

TEST_CASE("the program's worked numbers") {
  if (!has_cbc()) return report_skipped("this build has no CBC");
  const SmallInstance chain{{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 4}, {0, 4}},
                            {{0, {1}, 1}, {1, {2}, 1}, {2, {3}, 1}, {3, {4}, 1}}};
  const SmallInstance sim1{{{0, 2}, {0, 3}, {1, 4}, {1, 2}, {0, 1}},
                           {{0, {1}, 5}, {0, {2}, 1}, {1, {3}, 2}, {2, {4}, 3}, {3, {4}, 1}}};
  CHECK(value_of(problem_of(fork_join(1), linked(2))) == doctest::Approx(7));
  CHECK(value_of(problem_of(fork_join(3), linked(2))) == doctest::Approx(9));  // all on one device
  CHECK(value_of(problem_of(sim1, linked(2))) == doctest::Approx(9));
  CHECK(value_of(problem_of(chain, linked(2))) == doctest::Approx(7));  // 13 / 2, rounded up
  CHECK(value_of(problem_of(chain, linked(3))) == doctest::Approx(5));  // the chain
}

TEST_CASE("two tensors on one link take turns: 10 where the ops are forced apart") {
  if (!has_cbc()) return report_skipped("this build has no CBC");
  GraphBuilder builder{"forced"};
  for (const char* name : {"0", "1"})
    builder.add({.name = name,
                 .device_kinds = {"d0"},
                 .times = {{"gpu", Nanoseconds{1}}},
                 .outputs = {{std::string{"t"} + name, Bytes{4}}}});
  for (const char* name : {"2", "3"})
    builder.add({.name = name,
                 .device_kinds = {"d1"},
                 .times = {{"gpu", Nanoseconds{1}}},
                 .inputs = {name == std::string{"2"} ? "t0" : "t1"}});
  const Problem problem{std::move(builder).build(), make_cluster(linked(2))};
  CHECK(value_of(problem) == doctest::Approx(10));  // 1 + 4 + 4 + 1
}

TEST_CASE("what the program finds is what branch and bound finds, and its order replayed gives its objective") {
  if (!has_cbc()) return report_skipped("this build has no CBC");
  std::size_t confirmed = 0, count = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(30U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(29, seed);
    RandomProblemOptions options;
    options.most_devices = seed % 3 == 0 ? 3 : 2;
    options.most_ops = 6;
    options.memory = seed % 2 == 0;
    const Problem problem = random_problem(random, options);
    if (!best_quick_schedule(problem)) continue;
    const auto exact = exact_schedule(problem, 1'000'000);
    const PestoResult result = solve_pesto(problem, {.solver = PestoSolver::cbc, .nodes = 2'000});
    const Timeline timeline = simulate(problem, result.schedule);
    CHECK(timeline.makespan == result.value);
    CHECK(timeline.fits());
    CHECK(result.bound <= exact.value);
    CHECK(result.value >= exact.bound);
    if (result.optimal && exact.optimal()) CHECK(result.value == exact.value);
    ++count;
    confirmed += result.confirmed;
  }
  CHECK(count > test::rounds(15U));
  CHECK(confirmed * 10 >= count * 8);
}

void check_rows(const MakespanProgram& program, const std::vector<double>& x, double tolerance) {
  const LinearProgram& linear = program.program().linear;
  for (std::size_t row = 0; row < linear.rows(); ++row) {
    double sum = 0;
    for (const auto& term : linear.terms(row)) sum += term.coefficient * x[term.column];
    REQUIRE(sum >= linear.row_lower(row) - tolerance);
    REQUIRE(sum <= linear.row_upper(row) + tolerance);
  }
}

/// Ops of 1 to 3 on the first device and of up to 100 on others, with tensors of up to 60.
Problem lopsided(Random& random, std::size_t devices) {
  Instance instance;
  const std::int64_t ops = random.between(3, 5);
  for (std::int64_t i = 0; i < ops; ++i) {
    instance.times.push_back({random.between(1, 3)});
    while (instance.times.back().size() < devices) instance.times.back().push_back(random.between(1, 100));
    for (std::int64_t before = 0; before < i; ++before)
      if (random.chance(0.4))
        instance.edges.push_back(
            {static_cast<std::size_t>(before), static_cast<std::size_t>(i), random.between(1, 60)});
  }
  return make_problem(instance);
}

TEST_CASE("the program has the optimum below a short schedule where other devices and links are slow by far") {
  if (!has_cbc()) return report_skipped("this build has no CBC");
  std::size_t equal = 0;
  const auto count = test::rounds<std::uint64_t>(60);
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(37, seed);
    const Problem problem = lopsided(random, 2 + seed % 2);
    const Nanoseconds least = least_makespan(problem);
    const MakespanProgram program(problem, {.limit = least});
    const IntegerSolution solution = solve_by_cbc(program.program());
    REQUIRE(solution.status == IntegerSolution::Status::optimal);
    CHECK(solution.value <= static_cast<double>(least.count) + 1e-6);
    equal += solution.value >= static_cast<double>(least.count) - 1e-6;
  }
  CHECK(equal * 10 >= count * 9);  // only the program lets tensors wait for others
}

TEST_CASE("a known schedule satisfies the program") {
  for (std::uint64_t seed = 0; seed < test::rounds(200U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(31, seed);
    RandomProblemOptions options;
    options.most_devices = 3;
    options.most_ops = 8;
    options.memory = false;
    const Problem problem = seed < 100 ? random_problem(random, options) : lopsided(random, 3);
    Schedule schedule = random_schedule(random, problem);
    if (seed >= 100 && seed % 2 == 0) schedule = place_single(problem);
    const Timeline timeline = simulate(problem, schedule);
    const MakespanProgram program(problem, {.limit = timeline.makespan});
    const std::vector<double> x = program.columns_of(schedule, timeline);
    if (x.empty()) continue;  // the first op is on a device equal to an earlier one
    check_rows(program, x, 1e-6);
  }
}

TEST_CASE("whenever time ends, CBC has a solution of the program or none") {
  if (!has_cbc()) return report_skipped("this build has no CBC");
  // CBC used to crash if its time ended while it preprocessed these programs.
  for (std::uint64_t seed = 0; seed < test::rounds(6U); ++seed) {
    CAPTURE(seed);
    const Problem problem{layered_graph(10 + seed, seed), make_cluster(linked(3))};
    const Schedule start = place_single(problem);
    const Timeline timeline = simulate(problem, start);
    const MakespanProgram program(problem, {.limit = timeline.makespan});
    for (const double seconds : {0.001, 0.004, 0.016, 0.064}) {
      CAPTURE(seconds);
      const IntegerSolution solution =
          solve_by_cbc(program.program(), {.start = program.columns_of(start, timeline), .seconds = seconds});
      CHECK(solution.status != IntegerSolution::Status::infeasible);
      if (!solution.x.empty()) check_rows(program, solution.x, 1e-3);  // coefficients of hundreds
    }
  }
}

TEST_CASE("without CBC pesto says what is missing where CBC is asked for") {
  if (has_cbc()) return;
  CHECK_THROWS_AS(solve_pesto(problem_of(fork_join(1), linked(2)), {.solver = PestoSolver::cbc}), MissingError);
}

TEST_CASE("branch and bound stands in for the program") {
  const PestoResult result = solve_pesto(problem_of(fork_join(1), linked(2)), {.solver = PestoSolver::own});
  CHECK(result.value == Nanoseconds{7});
  CHECK(result.optimal);
  CHECK(solve_pesto(problem_of(fork_join(3), linked(2)), {.solver = PestoSolver::own}).value == Nanoseconds{9});
}

TEST_CASE("pesto on a coarse graph places every op, and claims no bound of the whole graph") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    const Problem problem{layered_graph(60, seed), make_cluster(linked(2))};
    const Schedule schedule = pesto(problem, 8, {.nodes = 50});
    REQUIRE_NOTHROW(check_schedule(problem, schedule));
    CHECK(!schedule.search->lower_bound);
  }
  const Problem small = problem_of(fork_join(1), linked(2));
  CHECK(find_placer("pesto").place(small, {}).search->lower_bound == Nanoseconds{7});
}

TEST_CASE("an order that the program gives is replayed under strict at its objective") {
  if (!has_cbc()) return report_skipped("this build has no CBC");
  std::size_t replayed = 0, count = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    const Problem problem{layered_graph(8, seed), make_cluster(linked(2))};
    const PestoResult result = solve_pesto(problem, {.solver = PestoSolver::cbc});
    ++count;
    if (!result.confirmed || result.schedule.policy != Policy::strict) continue;
    ++replayed;
    CHECK(simulate(problem, result.schedule).makespan <= result.objective);
    CHECK(simulate(problem, result.schedule).makespan == result.value);
  }
  CHECK(replayed * 2 >= count);
}

TEST_CASE("a solution has a value for each column, and a schedule is of the program's problem") {
  const Problem problem = problem_of(fork_join(1), linked(2));
  const MakespanProgram program{problem, {.limit = Nanoseconds{100}}};
  CHECK_THROWS_AS(program.placement_of({}), InputError);
  CHECK_THROWS_AS(program.starts_of({1, 2}), InputError);
  CHECK_THROWS_AS(program.columns_of({}, {}), InputError);
}

}  // namespace
}  // namespace trainyard::test
