#pragma once

#include <cstdint>

#include "trainyard/place/meta/placement_search.hpp"

namespace trainyard {

struct TabuOptions {
  PlacementSearchOptions search = {};
  std::uint64_t candidates = 16;  // moves looked at in an iteration
  std::uint64_t tenure = 10;      // iterations for which a group may not go back
};

/// Tabu search over placements. In an iteration some moves of a colocation group to another device are looked at, half
/// of them of groups on the critical path, the others of any; the best is made, though it be worse than where the
/// search stands. The group may then not go back to the device that it left for `tenure` iterations (short-term
/// memory), unless that gives the best state of all (aspiration). Ties go to the move that was drawn first. A move
/// counts as evaluated when it is looked at, and again when it is made.
///
/// F. Glover: Tabu search, part I. ORSA Journal on Computing 1(3), 1989.
Schedule tabu_search(const Problem& problem, const TabuOptions& options, const PlaceOptions& run);

}  // namespace trainyard
