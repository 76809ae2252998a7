#pragma once

#include <span>

#include "profiler/validate/validation.hpp"

namespace trainyard {

/// Agreement of predictions and measurements on the order of schedules.
struct Ranking {
  std::size_t pairs = 0;  // pairs of schedules measured at least 10 % apart
  double agreement = 1;   // share of them predicted in the right order
  double regret = 0;      // measured time of the schedule predicted fastest / best measured - 1
  double mean_error = 0;  // mean absolute total error
  double worst_error = 0;
};
Ranking rank(std::span<const Validation> validations);

}  // namespace trainyard
