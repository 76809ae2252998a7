#pragma once

#include <compare>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Simulated cost of a schedule: first by bytes beyond the capacities, all devices together, then by makespan.
struct Outcome {
  Bytes excess;
  Nanoseconds makespan;

  friend auto operator<=>(const Outcome&, const Outcome&) = default;
};

}  // namespace trainyard
