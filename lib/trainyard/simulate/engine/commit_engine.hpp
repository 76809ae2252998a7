#pragma once

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

/// Implements the rules of simulate() for `fifo` and `strict` without simulating events: tasks are *committed* one
/// after another, each with its final start and end.
///
/// fifo. One queue holds the tasks with known ready times, by (r, id), with r the ready time. Its first task x is next
/// on all its resources R: every task that is still unknown depends on an uncommitted task y that takes time, so its
/// ready time is
///
///     r >= end(y) >= r(y) + p(y) > r(y) >= r(x),
///
/// which is later than that of x. Hence, for ops as well as for transfers, which occupy all channels of their route at
/// once,
///
///     start(x) = max(r(x), max over R of free),    end(x) = start(x) + p(x),    free = end(x) + gap on each of R.
///
/// A waiting transfer that is first on one channel but not on another blocks the transfers behind it: committing in
/// order of (r, id) has the same effect. Tasks of zero duration occupy no resource. They are committed as soon as their
/// ready time is known and never enter the queue.
///
/// Channels that one device feeds need no queue: the device's transfers become ready in the order in which its ops run,
/// so their arrival is known when the producer is committed (DenseProblem::Links).
///
/// strict. The order of a device is one more dependency: an op whose inputs have arrived and whose turn it is starts at
/// max(ready, free). Ops need no queue. Transfers that share channels use the queue alone, after all ops that can be
/// committed.
///
/// The queue holds N ops and T transfers instead of 2 N + 2 T events, and device and link queues are not needed. A run
/// costs three to four times a topological sweep; with an event loop it costs seven to thirty times as much as a sweep.
///
/// `durations`: op times by op id in place of the problem's; null: the problem's. Returns the makespan, or kDeadlock if
/// the strict orders contradict the graph. Writes workspace.record if `record` is set. Apart from deadlocks the
/// schedule must have passed check_schedule(), with policy fifo or strict and fifo links; the cluster must have no fair
/// channels.
Nanoseconds run_commits(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                        bool record, Workspace& workspace);

}  // namespace trainyard::detail
