#include <Clp_C_Interface.h>

#include <memory>
#include <vector>

#include "trainyard/solve/linear_program.hpp"

namespace trainyard {

bool has_clp() { return true; }

LinearSolution solve_by_clp(const LinearProgram& program, std::optional<double> seconds) {
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

  const std::unique_ptr<Clp_Simplex, void (*)(Clp_Simplex*)> model{Clp_newModel(), Clp_deleteModel};
  Clp_setLogLevel(model.get(), 0);
  Clp_loadProblem(model.get(), static_cast<int>(program.columns()), static_cast<int>(program.rows()), starts.data(),
                  rows.data(), values.data(), lower.data(), upper.data(), cost.data(), row_lower.data(),
                  row_upper.data());
  if (seconds) Clp_setMaximumSeconds(model.get(), *seconds);
  Clp_initialSolve(model.get());
  LinearSolution solution;
  const int status = Clp_status(model.get());
  solution.status = status == 0   ? LinearSolution::Status::optimal
                    : status == 1 ? LinearSolution::Status::infeasible
                    : status == 2 ? LinearSolution::Status::unbounded
                                  : LinearSolution::Status::stopped;
  const double* x = Clp_primalColumnSolution(model.get());
  solution.x.assign(x, x + program.columns());
  solution.value = Clp_objectiveValue(model.get());
  solution.feasible = status == 0;
  solution.pivots = static_cast<std::size_t>(Clp_numberIterations(model.get()));
  return solution;
}

}  // namespace trainyard
