#include "trainyard/solve/linear_program.hpp"

#include <cassert>

namespace trainyard {

std::uint32_t LinearProgram::add_column(double cost, double lower, double upper) {
  assert(lower <= upper);
  cost_.push_back(cost);
  lower_.push_back(lower);
  upper_.push_back(upper);
  return static_cast<std::uint32_t>(cost_.size() - 1);
}

std::uint32_t LinearProgram::add_row(double lower, double upper, std::span<const Term> terms) {
  assert(lower <= upper);
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
  terms_.insert(terms_.end(), terms.begin(), terms.end());
  first_.push_back(terms_.size());
  return static_cast<std::uint32_t>(rows() - 1);
}

}  // namespace trainyard
