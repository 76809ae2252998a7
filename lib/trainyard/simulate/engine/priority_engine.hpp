#pragma once

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

/// Implements the rules of simulate() for links by priority, with devices under `priority` or `strict`. Tasks are
/// committed in the order of their starts.
///
/// priority. A device that is free at time f next starts an op at
///
///     t = max(f, the least ready time among its known ops),
///
/// and takes the most urgent op that is ready by then. The device with the least t goes first. An op whose ready time
/// is not known yet depends on an uncommitted task that starts at t or later and takes time, so it becomes ready after
/// t. A device is visited once per op, at the op's start.
///
/// strict. An op whose inputs are known and whose turn it is starts at max(ready, free). It is committed at once,
/// possibly ahead of the current time of the links: the ready times of its transfers are known early, never late.
///
/// Transfers and collectives that become ready when all their channels are free and no task waits for them start at
/// once, the most urgent first. The others wait in the line of each channel. A task starts when it is first in all its
/// lines and all channels are free. It is examined once it is first in all of them, when the last channel becomes free;
/// all tasks of an instant are examined before time advances. A transfer that is alone on a free channel fed by no
/// other device is committed with its producer. Tasks of zero duration are committed as soon as their ready time is
/// known.
///
/// Arguments and result are those of run_commits(); links must be by priority, with a priority for each op.
Nanoseconds run_priorities(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                           bool record, Workspace& workspace);

}  // namespace trainyard::detail
