#include "trainyard/io/foreign/solver_files.hpp"

#include <doctest/doctest.h>
#ifdef TEST_WITH_CBC
#include <Cbc_C_Interface.h>
#endif

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "simulate/small_instance.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/place/exact/exact.hpp"
#include "trainyard/simulate/simulate.hpp"

namespace trainyard::test {
namespace {

Problem two_ops() {
  const SmallInstance instance{{{0, 2}, {0, 3}}, {{0, {1}, 4}}};
  return problem_of(instance, linked(2));
}

TEST_CASE("a problem as an LP file: objective, rows, bounds, whole columns, and an end") {
  std::ostringstream out;
  write_lp(two_ops(), MakespanProgram{two_ops(), {.limit = Nanoseconds{5}}}, out);
  const std::string text = out.str();
  CHECK(text.starts_with("\\ Placement and order of 2 ops on 2 devices; times in 1 ns\nMinimize\n makespan: C\n"));
  for (const std::string part : {"Subject To\n", "Bounds\n", "Generals\n", "End\n"})
    CHECK(occurrences(text, part) == 1);
  // Symmetry breaking between two equal devices: the first op is on the first.
  CHECK(text.find(" 0 <= x_0_d1 <= 0\n") != std::string::npos);
  CHECK(text.find(" 0 <= x_1_d1 <= 1\n") != std::string::npos);
}

TEST_CASE("CBC reads the LP files back, and their optima are those of branch and bound") {
#ifdef TEST_WITH_CBC
  const TemporaryFolder folder;
  std::size_t equal = 0, count = 0;
  for (std::uint64_t seed = 0; seed < test::rounds(40U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(37, seed);
    RandomProblemOptions options;
    options.most_devices = 2;
    options.most_ops = 6;
    options.memory = seed % 2 == 0;
    const Problem problem = random_problem(random, options);
    const auto known = best_quick_schedule(problem);
    if (!known) continue;
    const Nanoseconds limit = simulated_makespan(problem, *known);
    const std::string path = (folder.path() / "model.lp").string();
    {
      std::ofstream out{path};
      write_lp(problem, MakespanProgram{problem, {.limit = limit}}, out);
    }
    const std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)> model{Cbc_newModel(), Cbc_deleteModel};
    Cbc_setLogLevel(model.get(), 0);
    Cbc_setParameter(model.get(), "log", "0");
    Cbc_setParameter(model.get(), "slog", "0");
    REQUIRE(Cbc_readLp(model.get(), path.c_str()) == 0);
    Cbc_solve(model.get());
    REQUIRE(Cbc_isProvenOptimal(model.get()) != 0);
    const double optimum = Cbc_getObjValue(model.get());
    const auto exact = exact_schedule(problem, 1'000'000);
    ++count;
    // The program may delay transfers on a link, so its optimum is at most that of branch and bound.
    CHECK(optimum <= static_cast<double>(exact.value.count) * (1 + 1e-6) + 1e-3);
    equal += optimum >= static_cast<double>(exact.value.count) * (1 - 1e-6) - 1e-3;
  }
  CHECK(count > test::rounds(20U));
  CHECK(equal * 10 >= count * 9);
#else
  report_skipped("this build has no CBC");
#endif
}

TEST_CASE("a problem for MiniZinc: its times, edges, transfers and links") {
  std::ostringstream out;
  write_minizinc(two_ops(), Nanoseconds{5}, out);
  const std::string text = out.str();
  CHECK(text.find("int: ops = 2; int: devices = 2; int: moves = 2;") != std::string::npos);
  CHECK(text.find("time = [| 2, 2\n  | 3, 3 |]") != std::string::npos);
  CHECK(text.find("constraint start[2] >= start[1] + duration[1];") != std::string::npos);
  CHECK(text.find("move_time = [| 0, 4\n  | 4, 0 |]") != std::string::npos);
  CHECK(occurrences(text, "constraint cumulative(sent") == 2);  // one constraint for each direction of the link
  CHECK(occurrences(text, "solve minimize makespan;") == 1);
}

}  // namespace
}  // namespace trainyard::test
