#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <CoinError.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/solve/columns.hpp"
#include "trainyard/solve/linear_program.hpp"

namespace trainyard {

namespace {

/// Asks after each iteration whether to end.
class Asker : public ClpEventHandler {
 public:
  explicit Asker(const std::function<bool()>& stop) : stop_(&stop) {}
  int event(Event which) override { return which == endOfIteration && (*stop_)() ? 0 : -1; }
  ClpEventHandler* clone() const override { return new Asker(*this); }

 private:
  const std::function<bool()>* stop_;
};

using Columns = detail::Columns<CoinBigIndex>;
using Bounds = Columns::Bounds;

/// Bounds of a direction in which one can move without end from any feasible x, scaled so that its largest component is
/// at most 1.
Bounds directions(const Bounds& of) {
  const auto all = [](std::vector<double> bounds, double beyond) {
    for (double& bound : bounds) bound = std::isinf(bound) ? beyond : 0;
    return bounds;
  };
  constexpr double kInfinity = LinearProgram::kInfinity;
  return {all(of.lower, -1), all(of.upper, 1), all(of.row_lower, -kInfinity), all(of.row_upper, kInfinity)};
}

}  // namespace

bool has_clp() { return true; }

LinearSolution solve_by_clp(const LinearProgram& program, const std::function<bool()>& stop) try {
  const Columns columns{program};
  const std::vector<double>& cost = columns.cost;
  const Bounds& bounds = columns.bounds;

  // Clp 1.17 reports some unbounded programs as infeasible, and a few as optimal. Its dual method, which initialSolve()
  // uses, fails with free columns. Its primal method gives up on some infeasible programs, which initialSolve() solves.
  constexpr int kGaveUp = 4;
  const bool careful = detail::may_fall_for_ever(program);
  const auto solve = [&](const std::vector<double>& costs, const Bounds& within) {
    ClpSimplex model;
    model.setLogLevel(0);
    model.loadProblem(static_cast<int>(program.columns()), static_cast<int>(program.rows()), columns.starts.data(),
                      columns.rows.data(), columns.values.data(), within.lower.data(), within.upper.data(),
                      costs.data(), within.row_lower.data(), within.row_upper.data());
    const Asker asker{stop};
    if (stop) model.passInEventHandler(&asker);
    if (careful) model.primal();
    if (!careful || model.status() == kGaveUp) model.initialSolve();
    LinearSolution solution;
    solution.status = model.status() == 0   ? LinearSolution::Status::optimal
                      : model.status() == 1 ? LinearSolution::Status::infeasible
                      : model.status() == 2 ? LinearSolution::Status::unbounded
                                            : LinearSolution::Status::stopped;
    const double* x = model.primalColumnSolution();
    solution.x.assign(x, x + program.columns());
    solution.value = model.objectiveValue();
    solution.feasible = model.status() == 0;
    solution.pivots = static_cast<std::size_t>(model.numberIterations());
    return solution;
  };
  if (!careful) return solve(cost, bounds);
  // The program is unbounded if it has a feasible x and a direction that keeps all bounds and lowers the value. Neither
  // of the two programs solved here is unbounded.
  const LinearSolution fall = solve(cost, directions(bounds));
  if (fall.status == LinearSolution::Status::stopped) return fall;
  if (fall.value >= -1e-7) return solve(cost, bounds);
  LinearSolution any = solve(std::vector<double>(cost.size(), 0), bounds);
  if (any.status == LinearSolution::Status::optimal) any.status = LinearSolution::Status::unbounded;
  any.value = std::inner_product(cost.begin(), cost.end(), any.x.begin(), 0.0);
  return any;
} catch (const CoinError& error) {
  refuse("solver", "Clp: " + error.message(), "check the program's numbers");
}

}  // namespace trainyard
