#pragma once

#include <cstddef>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/place/judge/evaluator.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

// Orders for a given placement. They throw InputError as check_placement() does, and as check_sizes() if they read a
// timeline.

/// Bottom levels of a placement, the longest chain from an op to an exit. With j over the ops that must follow i,
///
///     level(i) = duration(i) + max over j of (transfer time from i's device to j's + level(j)).
///
/// A control edge, and a transfer within one device, take no time. Unlike an upward rank, a bottom level counts the
/// actual transfer times of the placement instead of means.
IdMap<OpId, Nanoseconds> placed_bottom_levels(const Problem& problem, const Placement& placement);

/// Schedule with placed_bottom_levels() as priorities.
Schedule by_bottom_level(const Problem& problem, const Placement& placement);

/// Strict schedule in which each device runs its ops in the order in which they started. It may take longer than the
/// run that it was read from, because a strict device waits for its next op, and links are fifo.
Schedule in_started_order(const Problem& problem, const Placement& placement, const Timeline& timeline);

/// Strict schedule in the order of a list schedule of the reversed graph: the op with the longest chain before it is
/// taken first, and runs as late as its successors and its device allow.
Schedule from_the_end(const Problem& problem, const Placement& placement);

/// A schedule with its simulated outcome and the number of evaluations spent on it.
struct Ordered {
  Schedule schedule;
  Outcome outcome;
  std::size_t evaluations = 0;
};

/// The best of five orders for the schedule's placement: its own, fifo, by_bottom_level(), from_the_end(), and the
/// strict order in which the best of these four started its ops. Ties go to the first. A placement's worth is hidden by
/// a poor order: on random graphs the order makes 5 to 36 % of the makespan.
Ordered best_order(Evaluator& evaluator, const Schedule& schedule);
/// As above, for one schedule of a problem.
Ordered best_order(const Problem& problem, const Schedule& schedule);
/// Most evaluations of best_order().
inline constexpr std::size_t kOrders = 5;

}  // namespace trainyard
