#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// One task of a critical path, and what it waited for last.
struct PathStep {
  enum class Cause : std::uint8_t {
    start,     // nothing: it starts at 0, or when an own rule lets it
    data,      // the step before it, which made it ready
    resource,  // the step before it, which held its device or one of its channels; a gap may lie in between
  };
  OpId op;                   // none: a transfer
  std::size_t transfer = 0;  // a transfer's index into Timeline::transfers
  Cause cause = Cause::start;

  friend bool operator==(const PathStep&, const PathStep&) = default;
};

/// Why the step takes as long as it does: the tasks from time 0 to the makespan, each of which starts where the one
/// before it ends, or at the end of that one's gap on the resource that both need.
///
/// Found backwards from the op that ends last. A task that starts the moment it is ready is bound by the task that made
/// it ready; any other by the one that held its resource until then. A transfer never waits for a fair channel: those
/// that it shares one with do not appear, except in how long it takes. Ties: ops before transfers, then lower id. The
/// timeline must be the schedule's; throws InputError ("size") where it has not the problem's sizes.
std::vector<PathStep> critical_path(const Problem& problem, const Schedule& schedule, const Timeline& timeline);

/// The collective that a transfer of a timeline is a part of; none of others. All parts hold its channels together.
OpId collective_of(const Graph& graph, const Placement& placement, const Transfer& transfer);

}  // namespace trainyard
