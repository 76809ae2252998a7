#pragma once

#include <span>

#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// auto_place() for Objective::completion: minimizes the sum of the completion times of the graph's models, Talos's
/// total operation completion time (TOCT). Every member's placement is evaluated under its own order, and with the ops
/// of the model that ends first in front. Late acceptance (Burke and Bykov: The late acceptance hill-climbing
/// heuristic, EJOR 258, 2017) then walks over placements and orders from the best of these. Its moves put a colocation
/// group or a whole model on another device, or an op or a model elsewhere in the order. Excess, the bytes beyond the
/// capacities in simulation, is compared first, as in auto_place(). Splits and replicas are only those of the members'
/// schedules.
Schedule auto_completion(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options);

}  // namespace trainyard
