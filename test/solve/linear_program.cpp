#include "trainyard/solve/linear_program.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/solve/integer_program.hpp"

using namespace trainyard;
using Status = LinearSolution::Status;
constexpr double kInfinity = LinearProgram::kInfinity;

namespace {

bool keeps_bounds(const LinearProgram& program, const std::vector<double>& x, double tolerance) {
  for (std::size_t j = 0; j < program.columns(); ++j)
    if (x[j] < program.lower(j) - tolerance || x[j] > program.upper(j) + tolerance) return false;
  for (std::size_t i = 0; i < program.rows(); ++i) {
    double sum = 0;
    for (const auto& term : program.terms(i)) sum += term.coefficient * x[term.column];
    if (sum < program.row_lower(i) - tolerance || sum > program.row_upper(i) + tolerance) return false;
  }
  return true;
}

/// The solution of a square system by elimination with pivoting; nothing if the system is singular.
std::optional<std::vector<double>> solve_square(std::vector<std::vector<double>> a) {
  const std::size_t n = a.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t best = k;
    for (std::size_t i = k; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[best][k])) best = i;
    if (std::abs(a[best][k]) < 1e-9) return std::nullopt;
    std::swap(a[k], a[best]);
    for (std::size_t i = 0; i < n; ++i)
      if (i != k)
        for (std::size_t j = n + 1; j-- > k;) a[i][j] -= a[i][k] / a[k][k] * a[k][j];
  }
  std::vector<double> x;
  for (std::size_t k = 0; k < n; ++k) x.push_back(a[k][n] / a[k][k]);
  return x;
}

/// The minimum over all vertices, that is, feasible points where as many bounds as there are columns hold with
/// equality. This is the optimum if all columns have finite bounds. Nothing if there is no vertex.
std::optional<double> least_over_corners(const LinearProgram& program) {
  const std::size_t n = program.columns();
  std::vector<std::vector<double>> planes;  // coefficients, then the right-hand side
  const auto add = [&](std::vector<double> plane, double right) {
    if (!std::isfinite(right)) return;
    plane.push_back(right);
    planes.push_back(std::move(plane));
  };
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<double> unit(n, 0);
    unit[j] = 1;
    add(unit, program.lower(j));
    add(unit, program.upper(j));
  }
  for (std::size_t i = 0; i < program.rows(); ++i) {
    std::vector<double> row(n, 0);
    for (const auto& term : program.terms(i)) row[term.column] = term.coefficient;
    add(row, program.row_lower(i));
    add(row, program.row_upper(i));
  }
  std::optional<double> least;
  std::vector<std::vector<double>> chosen;
  const std::function<void(std::size_t)> choose = [&](std::size_t from) {
    if (chosen.size() == n) {
      const auto x = solve_square(chosen);
      if (!x || !keeps_bounds(program, *x, 1e-7)) return;
      double value = 0;
      for (std::size_t j = 0; j < n; ++j) value += program.cost(j) * (*x)[j];
      least = std::min(value, least.value_or(kInfinity));
      return;
    }
    for (std::size_t p = from; p < planes.size(); ++p) {
      chosen.push_back(planes[p]);
      choose(p + 1);
      chosen.pop_back();
    }
  };
  choose(0);
  return least;
}

/// A program with small whole numbers, so that vertices coincide and rows are linearly dependent.
LinearProgram random_program(Random& random, std::size_t most_columns, std::size_t most_rows) {
  LinearProgram program;
  const auto columns = static_cast<std::size_t>(random.between(1, static_cast<std::int64_t>(most_columns)));
  for (std::size_t j = 0; j < columns; ++j) {
    const auto lower = static_cast<double>(random.between(-3, 2));
    program.add_column(static_cast<double>(random.between(-3, 3)), lower,
                       lower + static_cast<double>(random.between(0, 4)));
  }
  const auto rows = static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(most_rows)));
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<LinearProgram::Term> terms;
    for (std::size_t j = 0; j < columns; ++j)
      if (random.below(3)) terms.push_back({static_cast<std::uint32_t>(j), static_cast<double>(random.between(-2, 2))});
    const auto right = static_cast<double>(random.between(-4, 4));
    switch (random.below(3)) {
      case 0:
        program.add_row(-kInfinity, right, terms);
        break;
      case 1:
        program.add_row(right, kInfinity, terms);
        break;
      default:
        program.add_row(right, right + static_cast<double>(random.between(0, 2)), terms);
    }
  }
  return program;
}

}  // namespace

TEST_CASE("the simplex method solves a textbook program") {
  // Maximize 3 x + 5 y with x <= 4, 2 y <= 12, 3 x + 2 y <= 18. Optimum: x = 2, y = 6, value 36.
  LinearProgram program;
  program.add_column(-3, 0, kInfinity);
  program.add_column(-5, 0, kInfinity);
  using Terms = std::vector<LinearProgram::Term>;
  program.add_row(-kInfinity, 4, Terms{{0, 1}});
  program.add_row(-kInfinity, 12, Terms{{1, 2}});
  program.add_row(-kInfinity, 18, Terms{{0, 3}, {1, 2}});
  const LinearSolution solution = solve_by_simplex(program);
  CHECK(solution.status == Status::optimal);
  CHECK(solution.value == doctest::Approx(-36));
  CHECK(solution.x[0] == doctest::Approx(2));
  CHECK(solution.x[1] == doctest::Approx(6));
  // Dual prices: with 13 in the second row, y = 6.5 and x = 5/3, so the value grows by 5/2 - 1; with 19 in the third, x
  // = 7/3, so it grows by 1.
  REQUIRE(solution.prices.size() == 3);
  CHECK(solution.prices[0] == doctest::Approx(0));
  CHECK(solution.prices[1] == doctest::Approx(-1.5));
  CHECK(solution.prices[2] == doctest::Approx(-1));
}

TEST_CASE("a program without rows sits at its bounds") {
  LinearProgram program;
  program.add_column(1, -2, 5);
  program.add_column(-1, -2, 5);
  CHECK(solve_by_simplex(program).value == doctest::Approx(-7));
  program.add_column(-1, 0, kInfinity);
  CHECK(solve_by_simplex(program).status == Status::unbounded);
}

TEST_CASE("a free column may go either way") {
  // Minimize |y - 3| as u with u >= y - 3 and u >= 3 - y, plus 2 y, with y >= -10: y = -10, u = 13, value -7.
  using Terms = std::vector<LinearProgram::Term>;
  LinearProgram program;
  program.add_column(1, -kInfinity, kInfinity);
  program.add_column(2, -kInfinity, kInfinity);
  program.add_row(-3, kInfinity, Terms{{0, 1}, {1, -1}});
  program.add_row(3, kInfinity, Terms{{0, 1}, {1, 1}});
  program.add_row(-10, kInfinity, Terms{{1, 1}});
  const LinearSolution solution = solve_by_simplex(program);
  CHECK(solution.status == Status::optimal);
  CHECK(solution.value == doctest::Approx(-7));
}

TEST_CASE("contradicting rows are infeasible, and a ray without end is unbounded") {
  using Terms = std::vector<LinearProgram::Term>;
  LinearProgram contradiction;
  contradiction.add_column(1, 0, kInfinity);
  contradiction.add_column(1, 0, kInfinity);
  contradiction.add_row(3, kInfinity, Terms{{0, 1}, {1, 1}});
  contradiction.add_row(-kInfinity, 2, Terms{{0, 1}, {1, 1}});
  CHECK(solve_by_simplex(contradiction).status == Status::infeasible);

  LinearProgram ray;  // minimize -x - y with x - y <= 1
  ray.add_column(-1, 0, kInfinity);
  ray.add_column(-1, 0, kInfinity);
  ray.add_row(-kInfinity, 1, Terms{{0, 1}, {1, -1}});
  CHECK(solve_by_simplex(ray).status == Status::unbounded);
}

TEST_CASE("the programs of Beale and of Kuhn, on which the largest reduced cost cycles, end at their optima") {
  using Terms = std::vector<LinearProgram::Term>;
  LinearProgram beale;  // optimum -1/20
  for (const double cost : {-0.75, 150.0, -0.02, 6.0}) beale.add_column(cost, 0, kInfinity);
  beale.add_row(-kInfinity, 0, Terms{{0, 0.25}, {1, -60}, {2, -0.04}, {3, 9}});
  beale.add_row(-kInfinity, 0, Terms{{0, 0.5}, {1, -90}, {2, -0.02}, {3, 3}});
  beale.add_row(-kInfinity, 1, Terms{{2, 1}});
  CHECK(solve_by_simplex(beale).value == doctest::Approx(-0.05));

  LinearProgram kuhn;  // optimum -2
  for (const double cost : {-2.0, -3.0, 1.0, 12.0}) kuhn.add_column(cost, 0, kInfinity);
  kuhn.add_row(-kInfinity, 0, Terms{{0, -2}, {1, -9}, {2, 1}, {3, 9}});
  kuhn.add_row(-kInfinity, 0, Terms{{0, 1.0 / 3}, {1, 1}, {2, -1.0 / 3}, {3, -2}});
  kuhn.add_row(-kInfinity, 2, Terms{{0, 2}, {1, 3}, {2, -1}, {3, -12}});
  CHECK(solve_by_simplex(kuhn).value == doctest::Approx(-2));
}

TEST_CASE("a program with a row and a column more begins where it ended without them, and ends at its own optimum") {
  Random random{7};
  std::size_t solved = 0, pivots = 0, pivots_anew = 0;
  for (int round = 0; round < test::rounds(400); ++round) {
    CAPTURE(round);
    LinearProgram program = random_program(random, 6, 6);
    const LinearSolution before = solve_by_simplex(program);
    const std::uint32_t column = program.add_column(static_cast<double>(random.between(-3, 3)), 0, 4);
    program.add_row(static_cast<double>(random.between(-3, 0)), 3,
                    std::vector<LinearProgram::Term>{{0, 1}, {column, static_cast<double>(random.between(-2, 2))}});
    const LinearSolution anew = solve_by_simplex(program);
    const LinearSolution on = solve_by_simplex(program, {.start = before.basis});
    CHECK(on.status == anew.status);
    if (anew.status != Status::optimal) continue;
    ++solved;
    CHECK(on.value == doctest::Approx(anew.value).epsilon(1e-6));
    CHECK(keeps_bounds(program, on.x, 1e-6));
    pivots += on.pivots;
    pivots_anew += anew.pivots;
    CHECK(solve_by_simplex(program, {.start = on.basis}).pivots == 0);
  }
  CHECK(solved > test::rounds(100U));
  CHECK(2 * pivots < pivots_anew);
}

TEST_CASE("columns and rows that no program has are refused as they are added") {
  using Terms = std::vector<LinearProgram::Term>;
  const double nan = std::nan("");
  LinearProgram program;
  program.add_column(1, 0, 1);
  CHECK_THROWS_WITH_AS(program.add_column(1, 5, 1),
                       "no number is between the bounds 5 and 1 of column 1 of a linear program", InputError);
  CHECK_THROWS_AS(program.add_column(nan, 0, 1), InputError);
  CHECK_THROWS_AS(program.add_column(1, nan, 1), InputError);
  CHECK_THROWS_AS(program.add_column(1, kInfinity, kInfinity), InputError);
  CHECK_THROWS_AS(program.add_row(1, 0, Terms{{0, 1}}), InputError);
  CHECK_THROWS_AS(program.add_row(0, 1, Terms{{0, nan}}), InputError);
  CHECK_THROWS_WITH_AS(program.add_row(0, 1, Terms{{5, 1}}),
                       "row 0 of a linear program has 1 times column 5, but the program has 1 column", InputError);
  CHECK(program.columns() == 1);
  CHECK(program.rows() == 0);
  using At = SimplexBasis::At;
  CHECK_THROWS_WITH_AS(solve_by_simplex(program, {.start = {{At::basic, At::lower}, {}}}),
                       "a basis of 2 columns and 0 rows does not fit a linear program of 1 column and 0 rows",
                       InputError);
  CHECK_THROWS_WITH_AS(solve_by_simplex(program, {.start = {{}, {At::lower}}}),
                       "a basis of 0 columns and 1 row does not fit a linear program of 1 column and 0 rows",
                       InputError);
  CHECK(solve_by_simplex(program, {.start = {{At::basic}, {}}}).value == doctest::Approx(0));  // no row for it
}

TEST_CASE("an integer program has the columns that are to be whole, and those of its start") {
  if (!has_cbc()) return test::report_skipped("this build has no CBC");
  IntegerProgram program;
  program.linear.add_column(-1, 0, 3.5);
  program.whole = {0};
  CHECK(solve_by_cbc(program).value == doctest::Approx(-3));
  CHECK(solve_by_cbc({program.linear, {}}).value == doctest::Approx(-3.5));
  CHECK_THROWS_AS(solve_by_cbc(program, {.start = {1, 2, 3}}), InputError);
  program.whole = {7};
  CHECK_THROWS_AS(solve_by_cbc(program), InputError);
}

TEST_CASE("an integer program that is stopped keeps its start, and claims no proof") {
  if (!has_cbc()) return test::report_skipped("this build has no CBC");
  IntegerProgram program;
  std::vector<LinearProgram::Term> terms;
  for (std::uint32_t j = 0; j < 30; ++j) {
    program.whole.push_back(program.linear.add_column(-10.0 - j * 7 % 13, 0, 1));
    terms.push_back({j, 20.0 + j * 11 % 17});
  }
  program.linear.add_row(0, 301, terms);
  IntegerOptions options{.start = std::vector<double>(30, 0)};
  const IntegerSolution whole = solve_by_cbc(program, options);
  int asked = 0;
  options.stop = [&] { return ++asked < 0; };
  const IntegerSolution same = solve_by_cbc(program, options);  // `stop` is called, but never stops the search
  CHECK(asked > 0);
  CHECK(same.x == whole.x);
  CHECK(same.nodes == whole.nodes);
  options.stop = [] { return true; };
  const IntegerSolution stopped = solve_by_cbc(program, options);
  CHECK(stopped.status == IntegerSolution::Status::feasible);
  CHECK(stopped.value >= whole.value);
  CHECK(stopped.bound == -kInfinity);
}

TEST_CASE("the value is that of x, which keeps the bounds of the columns") {
  using At = SimplexBasis::At;
  LinearProgram program;
  program.add_column(1e6, 0, kInfinity);
  program.add_row(-5e-10, -5e-10, std::vector<LinearProgram::Term>{{0, 1}});
  // In the basis the column is -5e-10, within the tolerance of 1e-9 below its bound.
  const LinearSolution solution = solve_by_simplex(program, {.start = {{At::basic}, {At::lower}}});
  CHECK(solution.status == Status::optimal);
  CHECK(solution.x == std::vector{0.0});
  CHECK(solution.value == 0);
}

TEST_CASE("a solver that may not pivot says that it was stopped") {
  using Terms = std::vector<LinearProgram::Term>;
  LinearProgram program;
  program.add_column(-1, 0, 1);
  program.add_column(-1, 0, 1);
  program.add_row(-kInfinity, 1.5, Terms{{0, 1}, {1, 1}});
  const LinearSolution solution = solve_by_simplex(program, {.most_pivots = 1});
  CHECK(solution.status == Status::stopped);
  CHECK(solution.feasible);
  CHECK(solution.value == doctest::Approx(-1));
}

TEST_CASE("on random programs, many degenerate, the simplex method finds the best of all corners") {
  Random random{4};
  int feasible = 0;
  for (int round = 0; round < test::rounds(3000); ++round) {
    const LinearProgram program = random_program(random, 3, 4);
    const auto least = least_over_corners(program);
    const LinearSolution solution = solve_by_simplex(program);
    CAPTURE(round);
    REQUIRE(solution.status == (least ? Status::optimal : Status::infeasible));
    if (!least) continue;
    ++feasible;
    CHECK(keeps_bounds(program, solution.x, 1e-6));
    CHECK(solution.value == doctest::Approx(*least).epsilon(1e-7));
  }
  CHECK(feasible > test::rounds(500U));
}

TEST_CASE("a program without a least value is unbounded to every solver, also where Clp alone finds none or one") {
  using Terms = std::vector<LinearProgram::Term>;
  LinearProgram rises;  // minimize -2 x with x in no row: Clp reports infeasible
  rises.add_column(-2, 0, kInfinity);
  rises.add_column(-2, 0, 4);
  rises.add_column(-1, 0, 4);
  rises.add_row(-1, 1, Terms{{1, 2}, {2, 3}});
  // Unbounded: with y and z changed to y - 1 and z - 2, 2 y + z falls and both rows stay. Clp reports -2.
  LinearProgram falls;
  falls.add_column(-3, 0, 4);
  falls.add_column(2, -kInfinity, 4);
  falls.add_column(1, -kInfinity, 4);
  falls.add_row(-1, kInfinity, Terms{{1, -2}, {2, 1}});
  falls.add_row(-kInfinity, 1, Terms{{0, 2}, {1, -2}, {2, 1}});
  falls.add_row(-kInfinity, kInfinity, Terms{{0, 2}, {1, 1}, {2, 3}});
  for (const LinearProgram& program : {rises, falls}) {
    CHECK(solve_by_simplex(program).status == Status::unbounded);
    if (has_clp()) CHECK(solve_by_clp(program).status == Status::unbounded);
    if (has_cbc()) CHECK(solve_by_cbc({program, {}}).status == IntegerSolution::Status::unbounded);
    if (has_cbc()) CHECK(solve_by_cbc({program, {0, 1}}).status == IntegerSolution::Status::unbounded);
  }
}

TEST_CASE("on random programs whose columns have few bounds the simplex method and Clp agree") {
  if (!has_clp()) return test::report_skipped("this build has no Clp");
  Random random{9};
  for (int round = 0; round < test::rounds(2000); ++round) {
    LinearProgram program;
    const std::size_t columns = 1 + random.below(5), rows = random.below(6);
    for (std::size_t j = 0; j < columns; ++j)
      program.add_column(static_cast<double>(random.between(-3, 3)),
                         random.chance(0.4) ? -kInfinity : static_cast<double>(random.between(-4, 2)),
                         random.chance(0.4) ? kInfinity : static_cast<double>(random.between(2, 6)));
    for (std::size_t i = 0; i < rows; ++i) {
      std::vector<LinearProgram::Term> terms;
      for (std::uint32_t j = 0; j < columns; ++j)
        if (random.chance(0.6)) terms.push_back({j, static_cast<double>(random.between(-3, 3))});
      program.add_row(random.chance(0.4) ? -kInfinity : static_cast<double>(random.between(-6, 2)),
                      random.chance(0.4) ? kInfinity : static_cast<double>(random.between(2, 8)), terms);
    }
    const LinearSolution ours = solve_by_simplex(program), theirs = solve_by_clp(program);
    CAPTURE(round);
    REQUIRE(ours.status == theirs.status);
    if (ours.status == Status::optimal) CHECK(ours.value == doctest::Approx(theirs.value).epsilon(1e-6));
  }
}

TEST_CASE("Clp ends when it is stopped, and finds the same where it is asked in vain") {
  if (!has_clp()) return test::report_skipped("this build has no Clp");
  Random random{6};
  int asked = 0, ended = 0;
  for (int round = 0; round < test::rounds(50); ++round) {
    CAPTURE(round);
    const LinearProgram program = random_program(random, 60, 60);
    const LinearSolution alone = solve_by_clp(program), watched = solve_by_clp(program, [&asked] {
                                                          ++asked;
                                                          return false;
                                                        });
    CHECK(watched.status == alone.status);
    CHECK(watched.x == alone.x);
    CHECK(watched.pivots == alone.pivots);
    const LinearSolution stopped = solve_by_clp(program, [] { return true; });
    if (stopped.status != Status::stopped) continue;  // ended without an iteration
    ++ended;
    CHECK_FALSE(stopped.feasible);
    CHECK(stopped.pivots <= alone.pivots);
  }
  CHECK(asked > 0);
  CHECK(ended > 0);
}

TEST_CASE("on random programs of some size the simplex method and Clp agree") {
  if (!has_clp()) {
    CHECK_THROWS_AS(solve_by_clp({}), MissingError);
    return test::report_skipped("this build has no Clp");
  }
  Random random{5};
  for (int round = 0; round < test::rounds(300); ++round) {
    const LinearProgram program = random_program(random, 60, round % 2 ? 15 : 60);
    const LinearSolution ours = solve_by_simplex(program), theirs = solve_by_clp(program);
    CAPTURE(round);
    REQUIRE(ours.status == theirs.status);
    if (ours.status != Status::optimal) continue;
    CHECK(keeps_bounds(program, ours.x, 1e-6));
    CHECK(ours.value == doctest::Approx(theirs.value).epsilon(1e-7));
  }
}
