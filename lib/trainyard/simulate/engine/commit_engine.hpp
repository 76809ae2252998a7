#pragma once

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

/// The rules of simulate() for `fifo` and `strict` without simulating events: tasks are *committed*, one after the
/// other, each with its final start and end.
///
/// fifo. One queue holds the tasks whose ready time is known, by (ready, id). The first of it, x, is next on all its
/// resources R: whatever is still unknown depends on an uncommitted task y that takes time, so that its ready time is
///
///     r >= end(y) >= r(y) + p(y) > r(y) >= r(x),
///
/// later than x's. Hence, for ops and for transfers, which hold all channels of their route at once,
///
///     start(x) = max(r(x), max over R of free),    end(x) = start(x) + p(x),    free = end(x) + gap on each of R.
///
/// A waiting transfer that is first on one channel and not on another holds back those behind it there: that is what
/// committing in order of (ready, id) says. Tasks of zero duration take no resource; they are committed at once where
/// their ready time becomes known, and never enter the queue.
///
/// Channels that one device feeds need no queue: transfers of one device become ready in the order in which its ops
/// run, so that the arrival is known when the producer is committed (DenseProblem::Links).
///
/// strict. The order of a device is one more dependency: an op whose inputs have arrived and whose turn it is starts at
/// max(ready, free). Ops need no queue; transfers that share channels take the queue alone, after all ops that can be
/// committed have been.
///
/// N ops and T transfers in the queue instead of 2 N + 2 T events, and no device or link queues: three to four times
/// the cost of a topological sweep where an event loop takes seven to thirty.
///
/// `durations`: by op id, in place of the problem's; null: the problem's. Returns the makespan, or kDeadlock where
/// strict orders contradict the graph; fills in workspace.record where `record`. The schedule must otherwise have
/// passed check_schedule, with policy fifo or strict and links fifo; the cluster must have no fair channels.
Nanoseconds run_commits(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                        bool record, Workspace& workspace);

}  // namespace trainyard::detail
