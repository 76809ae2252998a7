#pragma once

#include <span>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// auto_place() for Objective::max_load: minimizes max_load(), the time per step of a full pipeline. Every member runs,
/// load-search included. Then load-search's annealing runs from the best placement and from scratch with other seeds,
/// until the budget is used up. Excess, the bytes beyond the capacities in simulation, is compared first, as in
/// auto_place().
Schedule auto_load(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options);

}  // namespace trainyard
