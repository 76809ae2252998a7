#pragma once

#include <span>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// auto_place() for Objective::max_load: the placement with the least max_load(), the time per step of a full pipeline.
/// Every member, load-search, then load-search's annealing from the best and from
/// other seeds, until the budget is used up. Bytes beyond the capacities in simulation come first, as in auto_place().
Schedule auto_load(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options);

}  // namespace trainyard
