#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct BranchAndBoundOptions {
  /// Only schedules shorter than this are looked for.
  Nanoseconds upper_limit = kLongestTime;
  /// A known schedule. If it fits in memory, only shorter ones are looked for. Must pass check_schedule.
  const Schedule* start = nullptr;
  /// Device of each op that must not move, DeviceId::none() for a free op; empty if all ops are free. The bound and the
  /// optimality then hold among the schedules that keep these ops there. A colocation group with one fixed op is fixed.
  Placement fixed = {};
  /// Limit on the nodes of the search tree. The run time is about proportional to this times the number of ops.
  std::uint64_t most_nodes = 1'000'000;
  /// Polled every few nodes of a large problem, every few hundred of a small one. True ends the search with the best
  /// schedule so far.
  std::function<bool()> stop = {};
};

struct BranchAndBoundResult {
  /// The shortest schedule found that fits in memory, with Policy::strict or Policy::priority; `start` itself if
  /// nothing is shorter. Empty if nothing below the limit was found; `value` is then the limit.
  std::optional<Schedule> schedule;
  /// The schedule's makespan according to the simulator.
  Nanoseconds value;
  /// Lower bound: no schedule that fits in memory is shorter than this (or than the limit, if that is less).
  Nanoseconds bound;
  std::uint64_t nodes = 0;
  /// The search tree was exhausted.
  bool complete = false;

  /// Proven: no schedule that fits in memory is shorter than `value`.
  bool optimal() const { return bound >= value; }
};

/// Searches all placements and orders. It is meant for small problems: 25 ops on two devices take about a tenth of a
/// second, and so do 12 ops on four.
///
/// The relaxed problem: ops and transfers are tasks with the simulator's durations, precedences, serialized resources
/// and gaps, but may start at any time and in any order. Every timeline of the simulator is a solution of it, so its
/// least makespan over all placements is a lower bound for every schedule.
///
/// Outer search: groups of colocated ops in topological order, each tried on every device, the most promising device
/// first. Nodes are pruned by heads and tails with the transfers decided so far (at least those of
/// chains_with_transfers), by Carlier's one-machine bound on every device and channel, by the total remaining work, and
/// by resident memory. Among interchangeable devices that are still empty only the first is tried.
///
/// Inner search, for one placement: active schedules (Giffler and Thompson 1960). Let t be the least time at which an
/// eligible task could end, and u that task. The next task is one that is eligible, could start before t, and is linked
/// to u by shared resources; the search branches on these. Nodes are pruned by heads and tails, by the one-machine
/// bound, and by dominance: the set of scheduled tasks was seen before in a state in which every remaining task could
/// start at least as early.
///
/// Each solution is simulated, with the order of the ops as Policy::strict and as Policy::priority, and the best
/// simulated schedule is returned. Links in the simulator take transfers in the order in which they become ready, or by
/// priority without waiting, so a solution of the relaxed problem may be unreachable. In that case all strict orders of
/// its placement are tried, and `bound` stays below `value` if none of them is as short.
///
/// Throws InputError "size" or "no-device" if `fixed` has the wrong length or names a device that cannot run its op.
BranchAndBoundResult branch_and_bound(const Problem& problem, const BranchAndBoundOptions& options = {});

}  // namespace trainyard
