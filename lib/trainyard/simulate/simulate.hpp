#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Simulates the schedule: a pure function, safe to call from many threads at once. Throws InputError like
/// check_schedule(). If the schedule has rewrites, all results refer to the rewritten graph (scheduled_problem).
///
/// Model. A task x is an op or a transfer. It has a duration p(x), a ready time r(x) and an id, and it occupies
/// resources: an op its device, a transfer all channels of its route at once.
///
///     r(op)       = the latest of: the ends of the producers of its inputs on its device, the ends of the transfers
///                   that bring the other inputs, the ends of the ops it comes after; 0 if there is none
///     r(transfer) = end of the producer
///     end(x)      = start(x) + p(x), except for transfers over fair channels and ops slowed by copies
///
/// When tasks wait for a resource, the first in its order gets it: by (r, id) under `fifo`; by (-priority, r, id) under
/// `priority`, where the priority of a transfer is that of its most urgent consumer at its destinations. A transfer
/// starts when it is first on all its channels and all are idle. The id of an op is its index; the id of a transfer is
/// (producer, tensor, lowest destination). Under `strict` each device runs its given order and waits if the next op is
/// not ready; links are fifo, or by priority as above (Schedule::urgent_links). A user-defined rule orders devices, and
/// links if it ranks transfers, as described in simulate/model/dispatch_rule.hpp.
///
/// At each instant all tasks that end are completed first, with everything they make ready; then idle resources are
/// dispatched. A resource with a gap becomes idle only that long after the end of its task.
///
/// A task of zero duration occupies no resource, under any policy: it completes at the instant it becomes ready. So an
/// op of zero duration does not wait for its turn in a strict order, and the order continues without it. A transfer of
/// zero duration does not wait for its link. No transfer waits on a route without channels.
///
/// Fair channels (Sharing::fair). No transfer waits for a fair channel. A transfer whose route has some first waits for
/// and occupies the serial channels of its route, if any, as above. Then its latency passes. Then its bytes flow and
/// share the fair channels with all other flows there, whatever their priorities. It occupies the serial channels until
/// it ends. simulate/model/fair_flows.hpp defines the rates.
///
/// Collectives (Graph::collective) are a third kind of task:
///
///     r(collective) = the latest of the ends of the ops it comes after
///     p(collective) = CollectiveRun::time on the devices of the ops before and after it
///
/// A collective occupies the channels of all its hops at once and is ordered together with transfers: its id comes
/// after all of theirs, and among collectives it is that of its op. Its priority is that of its most urgent member. On
/// fair channels it is one flow, as fast as its slowest hop. Its op occupies no device; the op's span is the instant at
/// which the collective ends. On each device, the tensor of the first member is held from the start of the collective.
/// Timeline::transfers has a transfer to each such member, from the device before it in the ring.
///
/// Interference. If the costs define it (CostModel::copy_sensitivity; off by default), an op is slowed while transfers
/// and collectives to or from its device run, by the share of the device's memory bandwidth that they use.
/// problem/memory_load.hpp has the formula, simulate/model/slowed_ops.hpp the progress of ops as copies start and end.
/// Op times given by the caller in place of the problem's (Simulation) already include it.
///
/// Broadcast. On a broadcasting egress one transfer serves all destinations whose route consists of that egress alone.
///
/// Memory. Every holding is a half-open interval [from, until); one of length zero holds nothing. A device holds
///
///     parameters and state    the whole step, [0, makespan], even if the step takes no time
///     a tensor made there     from the start of its op until the latest of: the op's end, the ends of its consumers on
///                             that device, the ends of its outgoing transfers; a kept tensor until the makespan
///     a tensor that arrived   from the start of its transfer until the end of its last consumer there
///     an op's workspace       while the op runs
///
/// At one instant, memory is first released by everything that ends, then taken by ops (by id), then by transfers (by
/// index). In this order the task is found that exceeded a device's capacity (OutOfMemory).
///
/// Use.
///
///     busy(device)    = sum of the actual durations of its ops
///     exposed(device) = length of (union of the transfers to or from it) minus (union of its ops)
///     busy(channel)   = sum of the durations of the transfers on it, without gaps; for a fair channel, the length of
///                       the union of its transfers, including latencies
///     bytes(channel)  = sum of their bytes, including transfers of zero duration; at most 2^63 - 1
Timeline simulate(const Problem& problem, const Schedule& schedule);

/// Equals simulate(problem, schedule).makespan, in less than half the time, because memory and use are not accounted
/// for.
Nanoseconds simulated_makespan(const Problem& problem, const Schedule& schedule);

}  // namespace trainyard
