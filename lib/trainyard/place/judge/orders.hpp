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

// Orders of a placement. Throw InputError as check_placement() does, and as check_sizes() where they read a timeline.

/// Bottom levels of a placement, the longest chain from an op to an exit:
///
///     level(i) = duration(i) + max over what must follow j of (transfer time from i's device to j's + level(j)),
///
/// a transfer taking no time on one device, nor a control edge. Unlike an upward rank it counts the transfers that
/// there will be, not their means.
IdMap<OpId, Nanoseconds> placed_bottom_levels(const Problem& problem, const Placement& placement);

/// Priorities by placed_bottom_levels.
Schedule by_bottom_level(const Problem& problem, const Placement& placement);

/// Each device in the order in which its ops started. It may take longer than the run that it was read off: a strict
/// device waits, and links are fifo.
Schedule in_started_order(const Problem& problem, const Placement& placement, const Timeline& timeline);

/// Each device in the order of a list schedule made from the end: the graph reversed, always the op with the most still
/// before it, as late as its successors and its device allow.
Schedule from_the_end(const Problem& problem, const Placement& placement);

struct Ordered {
  Schedule schedule;
  Outcome outcome;
  std::size_t evaluations = 0;
};

/// The best order known for the schedule's placement: its own, fifo, by bottom level, from the end, and the best of
/// these as each device started its ops. Ties go to the first. The placement decides what a placer is worth, and its
/// order hides it: on random graphs the order is worth 5 to 36 % of the makespan.
Ordered best_order(Evaluator& evaluator, const Schedule& schedule);

}  // namespace trainyard
