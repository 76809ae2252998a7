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
  std::function<bool()> stop = {};  // polled throughout: throws OutOfTime
};

/// The event loop shared by m-ETF and m-SCT. An op is ready when all ops that it depends on have ended. For a ready op
/// i and a device d with memory for it (see m_memory.hpp), at time `now`:
///
///     ready(i, d) = the latest arrival of its inputs on d if they were sent now
///     sched(i, d) = max(ready(i, d), the time at which d is free, now)
///
/// Each free device nominates the first ready op, in topological order, with sched = now. The first of the nominated
/// ops is scheduled on the lowest device that nominated it; this repeats until no op is nominated. Then `now` becomes
/// the next time at which a device is free or could start a ready op.
///
/// Transfers: each device has one channel, for sending and receiving, represented by the time at which it is next free:
///
///     send start    = max(end of the producer, channel of the sender);  the sender's channel = send start + time
///     receive start = max(send start, channel of the receiver);         arrival = the receiver's channel
///                                                                               = receive start + time
///
/// A tensor that a device has received stays there. ready() takes the tensors of an edge as one transfer, and each edge
/// by itself. When the op is scheduled the tensors are sent one by one, so it may start later than sched.
///
/// Favourite children, if there are any: a free device is *awake* if its last op has a favourite child that is ready,
/// has no device yet, and could start nowhere earlier. It nominates only an urgent op, which all devices with memory
/// for it could start now, or else the favourite child when it can start, or else nothing.
///
/// Additions to the papers: an op of no duration ends at once; a device with a gap is free only after it. If no device
/// has memory for any ready op and nothing is running, the first ready op goes to the device with the least excess
/// (ties: the lower id). "Topological order" is OpEdges::fifo_order.
class BaechiLoop {
 public:
  /// `favourite` is the favourite child of each op, none if it has none; empty if no op has one.
  BaechiLoop(const Problem& problem, const OpEdges& edges, const IdMap<OpId, OpId>& favourite);

  /// The schedule, its order kept as `options` say. If it does not fit in simulation, and memory is not `literal`, it
  /// is also planned with 90, 80, ... 50 % of each memory, and the schedule with the best simulated outcome is kept.
  Schedule schedule(const BaechiOptions& options) const;

 private:
  const Problem& problem_;
  const OpEdges& edges_;
  IdMap<OpId, OpId> favourite_;
};

}  // namespace trainyard
