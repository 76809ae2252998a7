#pragma once

#include <cstdint>

#include "trainyard/place/meta/placement_search.hpp"

namespace trainyard {

struct TabuOptions {
  PlacementSearchOptions search = {};
  std::uint64_t candidates = 16;  // moves evaluated in an iteration
  std::uint64_t tenure = 10;      // iterations in which a group may not go back
};

/// Tabu search over placements. Each iteration evaluates some moves of a colocation group to another device, half of
/// them of groups on the critical path, the others of any group. The best move is made, even if it is worse than the
/// current state. For `tenure` iterations the group may then not return to the device that it left (short-term memory),
/// unless that gives the best state of all (aspiration). Ties go to the move that was drawn first. A move counts as an
/// evaluation when it is evaluated, and again when it is made.
///
/// F. Glover: Tabu search, part I. ORSA Journal on Computing 1(3), 1989.
Schedule tabu_search(const Problem& problem, const TabuOptions& options, const PlaceOptions& run);

}  // namespace trainyard
