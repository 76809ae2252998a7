#pragma once

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

/// The rules of simulate() for links by priority: devices under `priority` or `strict`. Tasks are committed in order of
/// their starts.
///
/// priority. A device that is free at time f starts next at
///
///     t = max(f, the least ready time among its ops that are known),
///
/// and takes the most urgent op that is ready by then. The device with the least t goes first: an op that is not known
/// yet depends on an uncommitted task that starts at t or later and takes time, so it becomes ready after t. A device
/// is visited once per op, at its start.
///
/// strict. An op whose inputs are known and whose turn it is starts at max(ready, free), committed at once, ahead of
/// the time that the links have come to: the ready times of its transfers are known early, never late.
///
/// Transfers and collectives that find all their channels free and nobody in line when they become ready start at
/// once, the most urgent first. Others wait in the line of every channel, and one starts where it is first on all of
/// them and all are free. It is looked at once it is first on all, when the last of them becomes free; all of one
/// instant before time goes on. A transfer that is alone on a free channel that nobody else
/// feeds is committed with its producer. Tasks of zero duration are committed where their ready time becomes known.
///
/// Arguments and result are those of run_commits(); links must be by priority, with a priority per op.
Nanoseconds run_priorities(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                           bool record, Workspace& workspace);

}  // namespace trainyard::detail
