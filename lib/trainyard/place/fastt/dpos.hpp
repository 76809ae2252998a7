#pragma once

#include <functional>

#include "trainyard/place/fastt/dpos_engine.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct DposOptions {
  DposRules rules = {};
  PlanOrder order = PlanOrder::start;
  std::function<bool()> stop = {};  // asked all the time: ends with the plans that are done, or throws OutOfTime
};

/// Device placement and operation sequencing, with w(i) the largest time of op i on any device and c(t) the largest
/// transfer time of tensor t between any two:
///
///     rank(i)  = w(i) + max over what must follow j of (c(tensor from i to j) + rank(j))
///     critical path: from the entry with the largest rank always to the successor with the largest c + rank
///     ready(i, d) = max over inputs of (finish of the producer + transfer time from its device to d, 0 on d)
///     start(i, d) = of the first gap of d from ready(i, d) on that is long enough
///
/// Ops are placed by descending rank: those of the critical path on the critical-path device, others where they finish
/// first. The critical-path device is the one on which the ops of the path that it has room for take the least time on
/// average (ties: more ops, then the lower id); when the next op has no room on it, the next is chosen in the same way
/// for the rest of the path. Order enforcement: an op's place in the sequence of planned starts is its priority.
///
/// Ours, where the paper errs or is silent: FT is the finish, not the start (Algorithm 1, line 20), and ops of the
/// critical path have one too; several entries and exits need no virtual ones; equal ranks are taken in topological
/// order, an equal finish on the lower device; a device that has room for none of the path is no candidate, and where
/// there is none the op goes where it finishes first; what a device's memory is counted by (MemoryLedger), and the op
/// goes to the least excess where nothing has room. `textual` and `cumulative` are the letter of the paper.
///
/// With transfer and op times alike on all devices, and memory for everything, the planned makespan is at most
///     (sum of w) / devices + longest chain of w + longest chain of c,
/// which is what the proof of the paper's Theorem 1 yields. It does not hold where speeds differ.
///
/// Where memory binds, or the schedule does not fit in simulation, it is planned on 90, 80, ... 50 % of each memory
/// too, and the schedule with the best simulated outcome is kept. Throws OutOfTime where `stop` ends the first plan.
///
/// X. Yi et al.: Fast training of deep learning models over multiple GPUs. Middleware 2020 (FastT), Algorithm 1.
Schedule dpos(const Problem& problem, const DposOptions& options = {});

}  // namespace trainyard
