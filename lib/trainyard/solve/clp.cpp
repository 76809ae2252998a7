#include <ClpEventHandler.hpp>
#include <ClpSimplex.hpp>
#include <CoinError.hpp>
#include <functional>
#include <vector>

#include "trainyard/core/error.hpp"
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

}  // namespace

bool has_clp() { return true; }

LinearSolution solve_by_clp(const LinearProgram& program, const std::function<bool()>& stop) try {
  std::vector<double> cost, lower, upper, row_lower, row_upper, values;
  for (std::size_t j = 0; j < program.columns(); ++j) {
    cost.push_back(program.cost(j));
    lower.push_back(program.lower(j));
    upper.push_back(program.upper(j));
  }
  std::vector<CoinBigIndex> starts(program.columns() + 1, 0);
  for (std::size_t i = 0; i < program.rows(); ++i) {
    row_lower.push_back(program.row_lower(i));
    row_upper.push_back(program.row_upper(i));
    for (const auto& term : program.terms(i)) ++starts[term.column + 1];
  }
  for (std::size_t j = 0; j < program.columns(); ++j) starts[j + 1] += starts[j];
  std::vector<int> rows(static_cast<std::size_t>(starts.back()));
  values.resize(rows.size());
  std::vector<CoinBigIndex> next(starts.begin(), starts.end() - 1);
  for (std::size_t i = 0; i < program.rows(); ++i)
    for (const auto& term : program.terms(i)) {
      const auto at = static_cast<std::size_t>(next[term.column]++);
      rows[at] = static_cast<int>(i);
      values[at] = term.coefficient;
    }

  ClpSimplex model;
  model.setLogLevel(0);
  model.loadProblem(static_cast<int>(program.columns()), static_cast<int>(program.rows()), starts.data(), rows.data(),
                    values.data(), lower.data(), upper.data(), cost.data(), row_lower.data(), row_upper.data());
  const Asker asker{stop};
  if (stop) model.passInEventHandler(&asker);
  model.initialSolve();
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
} catch (const CoinError& error) {
  refuse("solver", "Clp: " + error.message(), "look at the program's numbers");
}

}  // namespace trainyard
