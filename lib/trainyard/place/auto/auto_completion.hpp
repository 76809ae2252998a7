#pragma once

#include <span>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// auto_place() for Objective::completion: the least total_completion() of the graph's models. Every member, each under
/// its own order, by the models' completion times (shortest first) and by their chains; then late acceptance (Burke and
/// Bykov: The late acceptance hill-climbing heuristic, EJOR 258, 2017) over placements and priorities from the best of
/// these: groups change devices, whole models too, models and ops change places in the order. Bytes beyond the
/// capacities in simulation come first, as in auto_place(). Splits and replicas are those that members give.
Schedule auto_completion(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options);

}  // namespace trainyard
