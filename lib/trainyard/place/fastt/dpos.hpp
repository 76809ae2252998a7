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
  std::function<bool()> stop = {};  // polled throughout: ends with the plans so far, or throws OutOfTime
};

/// Device placement and operation sequencing, with w(i) the largest time of op i on any device and c(t) the largest
/// transfer time of tensor t between any two devices:
///
///     rank(i)  = w(i) + max over successors j of (c(tensor from i to j) + rank(j))
///     critical path: from the entry with the largest rank, always to the successor with the largest c + rank
///     ready(i, d) = max over inputs of (finish of the producer + transfer time from its device to d, 0 on d)
///     start(i, d) = start of the first gap of d from ready(i, d) on that is long enough
///
/// Ops are placed by descending rank: those of the critical path on the critical-path device, others where they finish
/// first. The critical-path device is the one on which the ops of the path that it has room for take the least time on
/// average (ties: more ops, then the lower id). When it has no room for the next op, another is chosen in the same way
/// for the rest of the path. Order enforcement: an op's priority is its position in the sequence of planned starts.
///
/// Changes where the paper errs or is silent: FT is the finish, not the start (Algorithm 1, line 20), and ops of the
/// critical path have one too. Several entries and exits need no virtual ones. Ops of equal rank are taken in
/// topological order; of devices with equal finish, the lower one. A device with room for no op of the path is no
/// candidate; without candidates the op goes where it finishes first. Memory is counted by MemoryLedger, and an op for
/// which no device has room goes to the least excess. `textual` and `cumulative` follow the letter of the paper.
///
/// If transfer and op times are equal on all devices, and there is memory for everything, the planned makespan is at
/// most
///     (sum of w) / devices + longest chain of w + longest chain of c,
/// as the proof of the paper's Theorem 1 shows. The bound does not hold if speeds differ.
///
/// If memory binds, or the schedule does not fit in simulation, it is also planned with 90, 80, ... 50 % of each
/// memory, and the schedule with the best simulated outcome is kept. Throws OutOfTime if `stop` ends the first plan.
///
/// X. Yi et al.: Fast training of deep learning models over multiple GPUs. Middleware 2020 (FastT), Algorithm 1.
Schedule dpos(const Problem& problem, const DposOptions& options = {});

}  // namespace trainyard
