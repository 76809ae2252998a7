#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainyard/place/judge/orders.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// The schedules from which auto's search starts, and what they cost.
struct FirstSchedules {
  std::vector<Ordered> found;  // by outcome, ties in the order of the members
  std::uint64_t evaluations = 0;
  std::optional<PlanBound> plan_bound = {};  // from the member `plan`
  double seconds_of_evaluation = 0;          // the longest one measured; 0 unless time or evaluations were short
};

/// Runs the members of auto, and gives their placements the best orders known (steps 2 and 3 of auto_place). If seconds
/// or evaluations are short, all members run before any schedule gets its best order, the best schedule first. Throws
/// InputError as ask_members() does.
FirstSchedules first_schedules(const Problem& problem, std::span<const Placer> members, const PlaceOptions& options,
                               const Effort& effort);

}  // namespace trainyard
