#pragma once

#include <span>

#include "profiler/validate/validation.hpp"

namespace trainyard {

/// Agreement of predictions and measurements on the order of schedules.
struct Ranking {
  std::size_t pairs = 0;  // that differ by at least 10 % when measured
  double agreement = 1;   // share of them that are predicted in the right order
  double regret = 0;      // of the schedule predicted fastest: measured / best measured - 1
  double mean_error = 0;  // of the total errors' sizes
  double worst_error = 0;
};
Ranking rank(std::span<const Validation> validations);

}  // namespace trainyard
