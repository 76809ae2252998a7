#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/solve/linear_program.hpp"

namespace trainyard::detail {

/// A linear program by columns, as the solvers of COIN-OR take it. `Start` is their CoinBigIndex.
template <class Start>
struct Columns {
  struct Bounds {
    std::vector<double> lower, upper, row_lower, row_upper;
  };

  explicit Columns(const LinearProgram& program) : starts(program.columns() + 1, 0) {
    for (std::size_t j = 0; j < program.columns(); ++j) {
      cost.push_back(program.cost(j));
      bounds.lower.push_back(program.lower(j));
      bounds.upper.push_back(program.upper(j));
    }
    for (std::size_t i = 0; i < program.rows(); ++i) {
      bounds.row_lower.push_back(program.row_lower(i));
      bounds.row_upper.push_back(program.row_upper(i));
      for (const auto& term : program.terms(i)) ++starts[term.column + 1];
    }
    for (std::size_t j = 0; j < program.columns(); ++j) starts[j + 1] += starts[j];
    rows.resize(static_cast<std::size_t>(starts.back()));
    values.resize(rows.size());
    std::vector<Start> next(starts.begin(), starts.end() - 1);
    for (std::size_t i = 0; i < program.rows(); ++i)
      for (const auto& term : program.terms(i)) {
        const auto at = static_cast<std::size_t>(next[term.column]++);
        rows[at] = static_cast<int>(i);
        values[at] = term.coefficient;
      }
  }

  std::vector<double> cost;
  Bounds bounds;
  std::vector<Start> starts;   // of each column in `rows` and `values`, and their size
  std::vector<int> rows;       // of the entries
  std::vector<double> values;  // of the entries
};

}  // namespace trainyard::detail
