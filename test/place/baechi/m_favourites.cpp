#include "trainyard/place/baechi/m_favourites.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "place/baechi/m_answers.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/kit/ranks.hpp"
#include "trainyard/solve/linear_program.hpp"

using namespace trainyard;

namespace {

/// Value of the whole linear program, as printed in the paper.
double value_as_printed(const Problem& problem, const OpEdges& edges) {
  using Terms = std::vector<LinearProgram::Term>;
  const MeanCosts means{problem};
  const auto ns = [&](ScaledTime time) { return static_cast<double>(time) / static_cast<double>(means.scale()); };
  constexpr double kInfinity = LinearProgram::kInfinity;
  LinearProgram program;
  for (std::size_t e = 0; e < edges.size(); ++e) program.add_column(0, 0, 1);
  for (std::size_t i = 0; i < problem.op_count(); ++i) program.add_column(0, 0, kInfinity);
  const std::uint32_t w = program.add_column(1, 0, kInfinity);
  const auto start = [&](OpId op) { return static_cast<std::uint32_t>(edges.size() + op.index()); };
  for (const OpId op : problem.ops()) {
    program.add_row(ns(means.mean(op)), kInfinity, Terms{{w, 1}, {start(op), -1}});
    Terms in, out;
    for (const EdgeId edge : edges.into(op)) in.push_back({static_cast<std::uint32_t>(edge.index()), 1});
    for (const EdgeId edge : edges.out_of(op)) {
      out.push_back({static_cast<std::uint32_t>(edge.index()), 1});
      ScaledTime cost = 0;
      for (const TensorId tensor : edges.tensors(edge)) cost += means.mean(tensor);
      program.add_row(
          ns(means.mean(op)), kInfinity,
          Terms{{start(edges.to(edge)), 1}, {start(op), -1}, {static_cast<std::uint32_t>(edge.index()), -ns(cost)}});
    }
    if (!in.empty()) program.add_row(static_cast<double>(in.size()) - 1, kInfinity, in);
    if (!out.empty()) program.add_row(static_cast<double>(out.size()) - 1, kInfinity, out);
  }
  const LinearSolution solution = solve_by_simplex(program);
  REQUIRE(solution.status == LinearSolution::Status::optimal);
  return solution.value;
}

/// Length of the longest path with these x. Checks that for each op, x sums up to at least the number of edges less
/// one, over the edges into it and over those out of it.
double value_of(const Problem& problem, const OpEdges& edges, const IdMap<EdgeId, double>& x) {
  const MeanCosts means{problem};
  IdMap<OpId, double> start(problem.op_count(), 0.0);
  double end = 0;
  for (const OpId op : edges.fifo_order()) {
    double in = 0, out = 0;
    for (const EdgeId edge : edges.into(op)) in += x[edge];
    for (const EdgeId edge : edges.out_of(op)) out += x[edge];
    CHECK(in >= static_cast<double>(edges.into(op).size()) - 1 - 1e-6);
    CHECK(out >= static_cast<double>(edges.out_of(op).size()) - 1 - 1e-6);
    const double done = start[op] + static_cast<double>(means.mean(op)) / static_cast<double>(means.scale());
    end = std::max(end, done);
    for (const EdgeId edge : edges.out_of(op)) {
      CHECK(x[edge] >= 0);
      CHECK(x[edge] <= 1);
      double cost = 0;
      for (const TensorId tensor : edges.tensors(edge))
        cost += static_cast<double>(means.mean(tensor)) / static_cast<double>(means.scale());
      start[edges.to(edge)] = std::max(start[edges.to(edge)], done + cost * x[edge]);
    }
  }
  return end;
}

/// A random graph with times small enough for ties, and one tensor per edge.
test::Instance random_instance(Random& random, std::int64_t most_ops) {
  test::Instance instance;
  const auto count = static_cast<std::size_t>(random.between(1, most_ops));
  const std::int64_t longest = random.below(2) ? 4 : 1000;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t time = random.between(0, longest);
    instance.times.push_back({time, time});
    const auto reach = static_cast<std::size_t>(random.between(1, 6));
    for (std::size_t j = i > reach ? i - reach : 0; j < i; ++j)
      if (random.below(2)) instance.edges.push_back({j, i, random.between(0, longest)});
  }
  return instance;
}

double relaxed(const test::Instance& instance) {
  const Problem problem = test::make_problem(instance);
  return relaxed_favourites(problem, OpEdges{problem.graph()}, LinearSolver::simplex).value;
}

}  // namespace

TEST_CASE("the linear program of m-SCT has the published values on forks and diamonds") {
  // a fork: each child half a favourite, 1 + 1/2 + 1
  CHECK(relaxed({{{1, 1}, {1, 1}, {1, 1}}, {{0, 1, 1}, {0, 2, 1}}}) == doctest::Approx(2.5));
  // three children: x = 2/3 each, 1 + 2/3 + 1
  CHECK(relaxed({{{1, 1}, {1, 1}, {1, 1}, {1, 1}}, {{0, 1, 1}, {0, 2, 1}, {0, 3, 1}}}) == doctest::Approx(8.0 / 3));
  // a diamond: 1 + 1/2 + 1 + 1/2 + 1
  CHECK(relaxed({{{1, 1}, {1, 1}, {1, 1}, {1, 1}}, {{0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {2, 3, 1}}}) ==
        doctest::Approx(4));
  // p = 2, 3, 1, 2 and c = 1, 1/2, 1, 1/2, doubled here: both edges of the long side have x = 0, 4 + 6 + 4
  CHECK(relaxed({{{4, 4}, {6, 6}, {2, 2}, {4, 4}}, {{0, 1, 2}, {0, 2, 1}, {1, 3, 2}, {2, 3, 1}}}) ==
        doctest::Approx(14));
}

TEST_CASE("a chain is all favourites, and needs no program to say so") {
  const Problem problem = test::make_problem({{{1, 1}, {2, 2}, {3, 3}}, {{0, 1, 5}, {1, 2, 5}}});
  const OpEdges edges{problem.graph()};
  const RelaxedFavourites relaxed = relaxed_favourites(problem, edges);
  CHECK(relaxed.value == 6);
  CHECK(relaxed.blocks == 0);
  CHECK(favourite_children(problem, edges, relaxed.x) ==
        IdMap<OpId, OpId>{std::vector{OpId{1}, OpId{2}, OpId::none()}});
}

TEST_CASE("solved in parts the program has the value of the whole as it is printed, on random graphs") {
  Random random{31};
  for (int round = 0; round < test::rounds(400); ++round) {
    CAPTURE(round);
    const Problem problem = test::make_problem(random_instance(random, 25));
    const OpEdges edges{problem.graph()};
    const RelaxedFavourites relaxed = relaxed_favourites(problem, edges, LinearSolver::simplex);
    CHECK(relaxed.value == doctest::Approx(value_as_printed(problem, edges)).epsilon(1e-6));
    CHECK(relaxed.value == doctest::Approx(value_of(problem, edges, relaxed.x)).epsilon(1e-9));
    CHECK(relaxed.bound == relaxed.value);
  }
}

TEST_CASE("Clp and the simplex method give the same value, on random graphs of 300 ops") {
  if (!has_clp()) return test::report_skipped("this build has no Clp");
  Random random{32};
  for (int round = 0; round < test::rounds(30); ++round) {
    CAPTURE(round);
    const Problem problem = test::make_problem(random_instance(random, 300));
    const OpEdges edges{problem.graph()};
    CHECK(relaxed_favourites(problem, edges, LinearSolver::simplex).value ==
          doctest::Approx(relaxed_favourites(problem, edges, LinearSolver::clp).value).epsilon(1e-6));
  }
}

TEST_CASE("where the solver is stopped the value is that of the x it has, and the bound is below the optimum") {
  Random random{33};
  for (int round = 0; round < test::rounds(50); ++round) {
    const Problem problem = test::make_problem(random_instance(random, 40));
    const OpEdges edges{problem.graph()};
    const double optimum = relaxed_favourites(problem, edges, LinearSolver::simplex).value;
    const RelaxedFavourites stopped = relaxed_favourites(problem, edges, LinearSolver::simplex, 3);
    CHECK(stopped.value >= optimum * (1 - 1e-9));
    CHECK(stopped.bound <= optimum * (1 + 1e-9));
    CHECK(stopped.value == doctest::Approx(value_of(problem, edges, stopped.x)).epsilon(1e-9));
  }
}

TEST_CASE("an op has one favourite child, and is that of one op, at any threshold") {
  Random random{34};
  for (int round = 0; round < test::rounds(100); ++round) {
    const Problem problem = test::make_problem(random_instance(random, 30));
    const OpEdges edges{problem.graph()};
    const auto x = relaxed_favourites(problem, edges).x;
    for (const double threshold : {0.1, 0.5, 0.9}) {
      std::vector<OpId> children;
      for (const OpId child : favourite_children(problem, edges, x, threshold))
        if (!child.is_none()) children.push_back(child);
      std::ranges::sort(children);
      CHECK(std::ranges::adjacent_find(children) == children.end());
    }
  }
}

TEST_CASE("the linear program has the values that Baechi's program gets") {
  test::for_baechi([](const Problem& problem, const nlohmann::json&, const nlohmann::json& answers) {
    const auto& answer = answers.at("m_sct");
    if (answer.contains("error")) return;
    const OpEdges edges{problem.graph()};
    const double value = answer.at("lp_relaxed_makespan_us");
    CHECK(relaxed_favourites(problem, edges, LinearSolver::simplex).value == doctest::Approx(value).epsilon(1e-6));
    CHECK(value_as_printed(problem, edges) == doctest::Approx(value).epsilon(1e-6));
  });
}
