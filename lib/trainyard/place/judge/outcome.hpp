#pragma once

#include <compare>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Simulated cost of a schedule: first excess (bytes beyond the capacities, summed over devices), then makespan.
struct Outcome {
  Bytes excess;
  Nanoseconds makespan;

  friend auto operator<=>(const Outcome&, const Outcome&) = default;
};

}  // namespace trainyard
