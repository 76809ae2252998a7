#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// One task of a critical path, and the cause of its start time.
struct PathStep {
  enum class Cause : std::uint8_t {
    start,     // nothing: it starts at 0, or when a user-defined rule lets it
    data,      // the previous step made it ready
    resource,  // the previous step occupied its device or one of its channels; a gap may follow
  };
  OpId op;                   // none: a transfer
  std::size_t transfer = 0;  // a transfer's index into Timeline::transfers
  Cause cause = Cause::start;

  friend bool operator==(const PathStep&, const PathStep&) = default;
};

/// The critical path: tasks from time 0 to the makespan, each of which starts when the previous one ends, or at the end
/// of that one's gap on the resource that both need. It explains the length of the step.
///
/// Traced backwards from the op that ends last. A task that starts as soon as it is ready is bound by the task that
/// made it ready; any other task by the one that occupied its resource until then. A transfer never waits for a fair
/// channel: transfers that share one with it do not appear, although they lengthen it. Ties: ops before transfers, then
/// the lower id. The timeline must be that of the schedule; throws InputError ("size") if its sizes do not match the
/// problem.
std::vector<PathStep> critical_path(const Problem& problem, const Schedule& schedule, const Timeline& timeline);

/// The collective that a transfer of a timeline is a part of, or none. All its parts occupy the same channels together.
OpId collective_of(const Graph& graph, const Placement& placement, const Transfer& transfer);

}  // namespace trainyard
