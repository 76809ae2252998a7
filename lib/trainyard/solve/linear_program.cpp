#include "trainyard/solve/linear_program.hpp"

#include <fmt/format.h>

#include <cmath>

#include "trainyard/core/counted.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

void check_bounds(const char* of, std::size_t number, double lower, double upper) {
  if (!(lower <= upper && lower < LinearProgram::kInfinity && upper > -LinearProgram::kInfinity))
    refuse(
        "range",
        fmt::format("no number is between the bounds {} and {} of {} {} of a linear program", lower, upper, of, number),
        "give the lower bound first; without bounds, give -kInfinity and kInfinity");
}

}  // namespace

std::uint32_t LinearProgram::add_column(double cost, double lower, double upper) {
  if (!std::isfinite(cost))
    refuse("range", fmt::format("column {} of a linear program costs {}", columns(), cost), "costs are finite");
  check_bounds("column", columns(), lower, upper);
  cost_.push_back(cost);
  lower_.push_back(lower);
  upper_.push_back(upper);
  return static_cast<std::uint32_t>(cost_.size() - 1);
}

std::uint32_t LinearProgram::add_row(double lower, double upper, std::span<const Term> terms) {
  check_bounds("row", rows(), lower, upper);
  for (const Term& term : terms)
    if (term.column >= columns() || !std::isfinite(term.coefficient))
      refuse("range",
             fmt::format("row {} of a linear program has {} times column {}, but the program has {}", rows(),
                         term.coefficient, term.column, counted(columns(), "column")),
             "add columns before the rows that use them, and give finite coefficients");
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
  terms_.insert(terms_.end(), terms.begin(), terms.end());
  first_.push_back(terms_.size());
  return static_cast<std::uint32_t>(rows() - 1);
}

bool detail::may_fall_for_ever(const LinearProgram& program) {
  for (std::size_t j = 0; j < program.columns(); ++j) {
    const bool rises = program.cost(j) <= 0 && std::isinf(program.upper(j));
    const bool falls = program.cost(j) >= 0 && std::isinf(program.lower(j));
    if (program.cost(j) == 0 ? rises && falls : rises || falls) return true;
  }
  return false;
}

}  // namespace trainyard
