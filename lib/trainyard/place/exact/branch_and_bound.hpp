#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct BranchAndBoundOptions {
  /// Only shorter schedules are looked for.
  Nanoseconds upper_limit = kLongestTime;
  /// A known schedule: only shorter ones are looked for, where it fits in memory. Must pass check_schedule.
  const Schedule* start = nullptr;
  /// Ops that stay where they are; DeviceId::none() for those that are free. Empty: all are. Then bound and optimality
  /// are of the schedules that leave these ops there. A group of which one op is fixed is fixed.
  Placement fixed = {};
  /// Nodes of the search tree; it takes about as long as this times the number of ops.
  std::uint64_t most_nodes = 1'000'000;
  /// Asked every few nodes of a large problem, every few hundred of a small one: end with what there is.
  std::function<bool()> stop = {};
};

struct BranchAndBoundResult {
  /// The shortest that was found, with Policy::strict or Policy::priority; it fits in memory. None: nothing shorter
  /// than the limit was found; then `value` is the limit. `start` itself where nothing is shorter.
  std::optional<Schedule> schedule;
  /// The schedule's makespan, as the simulator says.
  Nanoseconds value;
  /// No schedule that fits is shorter than this (or than the limit, if that is less).
  Nanoseconds bound;
  std::uint64_t nodes = 0;
  /// The search came to its end.
  bool complete = false;

  /// Proven: no schedule that fits is shorter than `value`.
  bool optimal() const { return bound >= value; }
};

/// Searches all placements and orders. For small problems: 25 ops on two devices take about a tenth of a second, 12 ops
/// on four as long.
///
/// The relaxed problem: ops and transfers are tasks with the simulator's durations, precedences, serialized resources
/// and gaps, but started at any time and in any order. Every timeline of the simulator is a solution of it, so its
/// least makespan over all placements bounds every schedule.
///
/// Outer search: groups of colocated ops in topological order, each on every device, the most promising first. Pruned
/// by heads and tails with the transfers decided so far (at least those of chains_with_transfers), by Carlier's
/// one-machine bound on every device and channel, by the work that is left, and by resident memory. Of devices that are
/// interchangeable and still empty only the first is tried.
///
/// Inner search, for one placement: active schedules (Giffler and Thompson 1960). Let t be the least time at which an
/// eligible task could end. Then some task that is eligible, could start before t, and is linked to that one by shared
/// resources comes next: each is tried. Pruned by heads and tails, by the one-machine bound, and where the same set of
/// tasks has been scheduled before such that no remaining task could start later.
///
/// Each solution is simulated, with the order of the ops as Policy::strict and as Policy::priority: the schedule
/// returned is the best of what the simulator confirms. Links in the simulator take transfers in the order in which
/// they become ready, or by priority without waiting, so a solution of the relaxed problem may be out of reach; then
/// all strict orders of that placement are tried, and `bound` stays below `value` where none of them is as short.
///
/// Throws InputError: "size" and "no-device", of what is fixed.
BranchAndBoundResult branch_and_bound(const Problem& problem, const BranchAndBoundOptions& options = {});

}  // namespace trainyard
