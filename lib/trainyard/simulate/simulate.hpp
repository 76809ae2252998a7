#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Runs the schedule: a pure function, safe to call from many threads at once.
/// Throws InputError where check_schedule would. Where the schedule has rewrites, all results are of the rewritten
/// graph (scheduled_problem).
///
/// The model. A task is an op or a transfer. Task x has a duration p(x), a ready time r(x) and an id, and holds
/// resources: an op its device, a transfer every channel of its route at once.
///
///     r(op)       = the latest of: the ends of the producers of its inputs on its device, the ends of the transfers
///                   that bring the others, the ends of the ops it comes after; 0 where there is none
///     r(transfer) = end of the producer
///     end(x)      = start(x) + p(x), but where it shares a fair channel, or is an op that copies slow
///
/// Where waiting tasks want a resource, the first in order gets it: by (r, id) under `fifo`; by (-priority, r, id)
/// under `priority`, the priority of a transfer being that of its most urgent consumer at its destinations. A transfer
/// starts when it is first on all its channels and all are idle. The id of an op is its index, that of a transfer is
/// (producer, tensor, lowest destination). Under `strict` each device runs its given order, waiting where the next op
/// is not ready; links are fifo, or by priority as above (Schedule::urgent_links). A rule of the caller's own orders
/// devices, and links if it wants to, as simulate/model/dispatch_rule.hpp says.
///
/// At each instant everything that ends then completes, with all that this makes ready; then what is idle is
/// dispatched. A resource with a gap is idle only that long after the end of the task it carried.
///
/// A task of zero duration takes no resource, under any policy: it completes the moment it becomes ready. So an op of
/// zero duration does not wait for its turn in a strict order, and the order goes on without it; nor does a transfer
/// of zero duration wait for its link. A route without channels is never waited for.
///
/// Fair channels (Sharing::fair). No transfer waits for one. A transfer whose route has some first waits for and takes
/// the serial channels of its route, if any, as above; then its latency passes; then its bytes flow, sharing the fair
/// channels with all others that flow there, whatever their priorities; and it holds the serial ones until it ends.
/// simulate/model/fair_flows.hpp has the rates.
///
/// Collectives (Graph::collective). A third kind of task, beside computation:
///
///     r(collective) = the latest of the ends of the ops it comes after
///     p(collective) = CollectiveRun::time on the devices of the ops before and after it
///
/// It holds the channels of all its hops at once, in one order with transfers: its id is behind all of theirs, and
/// among collectives its op's. Its priority is that of its most urgent member. On fair channels it is one flow, as fast
/// as its slowest hop. Its op has the instant of its end as its span, and takes no device. A member's tensor is held
/// from the collective's start on (of the first member on a device); Timeline::transfers has a transfer to each such
/// member, from the device before it in the ring.
///
/// Interference. Where the costs say so (CostModel::copy_sensitivity; off without), an op goes on more slowly while
/// transfers and collectives to or from its device run, by the share of the device's memory bandwidth that they take:
/// problem/memory_load.hpp has the law, simulate/model/slowed_ops.hpp what happens when they come and go. Op times that
/// a caller gives in place of the problem's (Simulation) have it in them already.
///
/// On an egress that broadcasts, one transfer serves all destinations whose route is that egress alone.
///
/// Memory. Every holding is a half-open interval [from, until); one of length zero holds nothing. A device holds
///
///     parameters and state    the whole step, [0, makespan]: also where the step takes no time
///     a tensor made there     from the start of its op until the latest of: the op's end, the ends of its consumers on
///                             that device, the ends of its outgoing transfers; a kept one until the makespan
///     a tensor that arrived   from the start of its transfer until the end of its last consumer there
///     an op's workspace       while the op runs
///
/// At one instant, first everything that ends lets go, then ops take what they hold (by id), then transfers (by
/// index): in that order the one that crossed a device's capacity is named (OutOfMemory).
///
/// Use.
///
///     busy(device)    = sum of the durations of its ops, as they ran
///     exposed(device) = length of (union of the transfers to or from it) without (union of its ops)
///     busy(channel)   = sum of the durations of the transfers that held it, without gaps; of a fair channel, the
///                       length of the union of its transfers, latencies included
///     bytes(channel)  = sum of their bytes, those of transfers too short for a nanosecond included; at most
///                       2^63 - 1
Timeline simulate(const Problem& problem, const Schedule& schedule);

/// `simulate(problem, schedule).makespan` in less than half of the time: memory and use are not accounted for.
Nanoseconds simulated_makespan(const Problem& problem, const Schedule& schedule);

}  // namespace trainyard
