#pragma once

#include <functional>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/place/baechi/m_edges.hpp"
#include "trainyard/place/judge/plan_order.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

struct BaechiOptions {
  /// Whether memory counts as in the authors' program (see m_memory.hpp).
  bool literal = false;
  PlanOrder order = PlanOrder::best;
  std::function<bool()> stop = {};  // asked all the time: throws OutOfTime
};

/// The event loop that m-ETF and m-SCT share. An op is ready when all that it depends on has ended. For a ready op i
/// and a device d that has memory for it (see m_memory.hpp), at time `now`:
///
///     ready(i, d) = the latest arrival of its inputs there, were they sent now
///     sched(i, d) = max(ready(i, d), the time at which d is free, now)
///
/// Each free device nominates the first ready op, in topological order, with sched = now; of those the first is
/// scheduled, on the lowest device that nominated it, until there is none. Then `now` is the next time at which a
/// device is free or could start a ready op.
///
/// Transfers: each device has one channel, both to send and to receive, kept as the time at which it is free next:
///
///     send start    = max(end of the producer, channel of the sender);  the sender's channel = send start + time
///     receive start = max(send start, channel of the receiver);         arrival = the receiver's channel
///                                                                               = receive start + time
///
/// A tensor that a device has received is there for good. ready() tries the tensors of each edge as one transfer, and
/// each edge by itself; when the op is scheduled they are sent one by one, so it may start later than sched.
///
/// Favourite children, where there are any: a free device whose last op has a favourite child that is ready, has no
/// device yet, and could start nowhere earlier, is *awake*. It nominates only an urgent op, which all devices that have
/// memory for it could start now, or else the favourite child when it can start, or else nothing.
///
/// Ours, where the papers say nothing: an op of no duration ends at once; a device with a gap is free only after it.
/// Where no device has memory for any ready op and nothing is running, the first ready op goes to the device with the
/// least excess (ties: the lower id). "Topological order" is OpEdges::fifo_order.
class BaechiLoop {
 public:
  /// `favourite` of an op is none where it has no favourite child; empty where nothing has.
  BaechiLoop(const Problem& problem, const OpEdges& edges, const IdMap<OpId, OpId>& favourite);

  /// The schedule, its order kept as `options` say. If it does not fit in simulation it is planned on 90, 80, ... 50 %
  /// of each memory too, unless literal, and the schedule with the best simulated outcome is kept.
  Schedule schedule(const BaechiOptions& options) const;

 private:
  const Problem& problem_;
  const OpEdges& edges_;
  IdMap<OpId, OpId> favourite_;
};

}  // namespace trainyard
