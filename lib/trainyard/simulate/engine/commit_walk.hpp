#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/engine/closed_links.hpp"
#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/workspace.hpp"

namespace trainyard::detail {

/// Op times by op id in place of the problem's, if given.
struct GivenDurations {
  const Nanoseconds* by_op = nullptr;
  bool closed_links = true;  // whether DenseProblem::closed may be relied on
};

// Only for commit_engine.cpp: in an unnamed namespace the compiler may inline all functions of a run into one.
namespace {

/// One run of run_commits(). Everything is inlined into the loops.
///
/// Task numbers in the queue, with N ops: op i is task i, its waiting transfers together are task N + i, a collective
/// is task 2 N + i. This is the order of the ids that breaks ties.
template <class Queue, DenseProblem::Links kLinks, bool kStrict, bool kRecord>
class CommitWalk : public ClosedLinks<CommitWalk<Queue, kLinks, kStrict, kRecord>, kLinks, kRecord> {
  using Base = ClosedLinks<CommitWalk, kLinks, kRecord>;
  using Links = DenseProblem::Links;
  friend Base;
  friend StrictTurns;

 public:
  CommitWalk(const DenseProblem& problem, const Schedule& schedule, const GivenDurations& durations,
             Workspace& workspace, Queue& queue)
      : Base(problem, workspace.walk),
        workspace_(workspace),
        queue_(queue),
        schedule_(schedule),
        duration_(durations.by_op == nullptr ? problem.duration : durations.by_op),
        columns_(durations.by_op == nullptr && problem.columns > 1 ? problem.columns : 0),
        by_id_(durations.by_op != nullptr && problem.renumbered),
        closed_links_(durations.closed_links),
        all_wait_(problem.all_wait),
        zeros_(problem.zero_durations || !durations.closed_links),
        collectives_(problem.collectives) {}

  Nanoseconds run() {
    start();
    if constexpr (kStrict) {
      run_strict();
      if (!turns_.over()) return kDeadlock;
    } else {
      run_fifo();
    }
    if constexpr (kRecord) {
      Record& record = workspace_.record;
      record.started.resize(static_cast<std::size_t>(started_ - record.started.data()));
      record.in_order = true;
    }
    return last_;
  }

 private:
  using Base::problem_, Base::graph_, Base::work_, Base::ops_, Base::device_free_, Base::channel_free_, Base::sent_;

  void start() {
    if constexpr (kRecord) {
      workspace_.record.started.resize(problem_.ops);
      started_ = workspace_.record.started.data();
    }
    if (collectives_) workspace_.collectives.place(schedule_.placement);
    const IdArray<OpId, const DeviceId> placement{schedule_.placement.data()};
    for (const Position at : problem_.positions())
      ops_[at] = {Nanoseconds{0}, problem_.pending[at], placement[problem_.op_id(at)]};
    work_.clear();
  }

  void run_fifo() {
    queue_.clear();
    for (const Position source : problem_.sources) ready(source, Nanoseconds{0});
    drain();
    std::uint32_t task = 0;
    Nanoseconds at;
    while (queue_.template take<kLinks == Links::queued>(task, at)) {
      if (kLinks == Links::queued && task >= problem_.ops) {
        run_on_links(task - problem_.ops, at);
      } else {
        const Position op = problem_.position(OpId{task});
        run_op(op, ops_[op].device, at);
      }
      drain();
    }
  }

  void run_strict() {
    if constexpr (kLinks == Links::queued) queue_.clear();
    turns_.start(problem_, schedule_, *this);
    if constexpr (kLinks == Links::queued) {
      for (const Position source : problem_.sources)
        if (takes_no_time(source)) ready(source, Nanoseconds{0});
      drain();
    }
    for (;;) {
      turns_.run(problem_, *this);
      std::uint32_t task = 0;
      Nanoseconds at;
      if (kLinks != Links::queued || !queue_.take(task, at)) break;
      run_on_links(task - problem_.ops, at);
      drain();
    }
  }
  [[gnu::always_inline]] void run_on_links(std::uint32_t task, Nanoseconds at) {
    if (task < problem_.ops)
      send_waiting(problem_.position(OpId{task}), at);
    else
      run_collective(problem_.position(OpId{task - problem_.ops}), at);
  }

  bool is_collective(Position op) const { return problem_.problem.graph().collective(problem_.op_id(op)) != nullptr; }
  [[gnu::always_inline]] Nanoseconds duration(Position op, DeviceId device) const {
    if (columns_ == 0) return duration_[by_id_ ? problem_.op_at[op].index() : op.index()];
    return duration_[op.index() * columns_ + problem_.column[device]];
  }
  bool takes_no_time(Position op) const { return duration(op, ops_[op].device) == Nanoseconds{0}; }

  // --- what becomes ready ---

  /// `kInTurn`: called after a collective for its followers, one after another.
  template <bool kInTurn = false>
  [[gnu::always_inline]] void ready(Position op, Nanoseconds at) {
    if (kLinks == Links::queued && zeros_ && takes_no_time(op)) {
      if (collectives_ && is_collective(op)) {
        if (workspace_.collectives.of(problem_.op_id(op)).time > Nanoseconds{0})
          return queue_.insert(2 * problem_.ops + static_cast<std::uint32_t>(problem_.op_id(op).index()), at);
        record_collective(op, at, at, at);
      }
      record_op(op, at, at);
      last_ = std::max(last_, at);
      work_.instant.push_back(op);
    } else if constexpr (!kStrict) {
      const auto task = static_cast<std::uint32_t>(problem_.op_id(op).index());
      if constexpr (kInTurn)
        queue_.append(task, at);
      else
        queue_.insert(task, at);
    } else {
      turns_.ready(problem_.op_id(op), ops_[op].device);
    }
  }

  template <bool kInTurn = false>
  [[gnu::always_inline]] void satisfy(Position op, Nanoseconds at) {
    WalkState::Op& state = ops_[op];
    const Nanoseconds known = std::max(state.ready, at);
    state.ready = known;
    if (--state.pending == 0) ready<kInTurn>(op, known);
  }

  /// Finishes the ops of zero duration that became ready, and those that this makes ready. Uses a list instead of
  /// recursion, for chains of any length.
  [[gnu::always_inline]] void drain() {
    if (kLinks == Links::queued && zeros_) drain_instant();
  }
  void drain_instant() {
    while (!work_.instant.empty()) {
      const Position op = work_.instant.back();
      work_.instant.pop_back();
      finish(op, ops_[op].device, ops_[op].ready);
    }
  }

  // --- ops ---

  [[gnu::always_inline]] void run_op(Position op, DeviceId device, Nanoseconds at) {
    const Nanoseconds start = std::max(device_free_[device], at);
    const Nanoseconds end = start + duration(op, device);
    device_free_[device] = end + problem_.device_gap[device];
    last_ = std::max(last_, end);
    record_op(op, start, end);
    if constexpr (kRecord) *started_++ = problem_.op_id(op);
    finish(op, device, end);
  }

  // For StrictTurns.
  [[gnu::always_inline]] bool takes_turn(Position op) const { return kLinks != Links::queued || !takes_no_time(op); }
  [[gnu::always_inline]] bool has_all(Position op) const { return ops_[op].pending == 0; }
  [[gnu::always_inline]] void take_turn(Position op, DeviceId device) {
    run_op(op, device, ops_[op].ready);
    drain();
  }

  [[gnu::always_inline]] void finish(Position op, DeviceId device, Nanoseconds end) {
    if constexpr (kLinks == Links::queued)
      send_queued(op, device, end);
    else
      for (const TensorPosition tensor : graph_.outputs(op))
        record_count(tensor, Base::send_closed(tensor, device, end));
    graph_.each_before(op, [&](Position later) { satisfy(later, end); });
  }

  // --- transfers that may enter the queue ---

  /// Whether the transfer waits for its turn in the queue. The arrival of any other is known at its producer's end.
  [[gnu::always_inline]] bool waits(TensorPosition tensor, DeviceId from, DeviceId to) const {
    if (all_wait_) return true;
    if (closed_links_ && problem_.closed(from, to)) return false;
    const DenseProblem::Pair pair = problem_.pair(from, to);
    return !pair.channel.is_none() && problem_.transfer_time(tensor, pair) != Nanoseconds{0};
  }

  /// Sends all tensors of an op that has ended. Its waiting transfers are one entry of the queue, because their keys
  /// are consecutive.
  [[gnu::always_inline]] void send_queued(Position op, DeviceId device, Nanoseconds end) {
    bool later = false;
    for (const TensorPosition tensor : graph_.outputs(op)) {
      record_count(tensor, 0);
      bool now = false;
      for (const Edge edge : graph_.edges(tensor)) {
        const Position consumer = graph_.consumer(edge);
        const DeviceId to = ops_[consumer].device;
        if (to == device)
          satisfy(consumer, end);
        else if (waits(tensor, device, to))
          later = true;
        else
          now = true;
      }
      if (now) send_some<false>(tensor, device, end);
    }
    if (later) queue_.insert(problem_.ops + static_cast<std::uint32_t>(problem_.op_id(op).index()), end);
  }

  [[gnu::always_inline]] void send_waiting(Position op, Nanoseconds at) {
    for (const TensorPosition tensor : graph_.outputs(op)) send_some<true>(tensor, ops_[op].device, at);
  }

  /// Sends a tensor to the destinations whose transfers wait, or to the others, by ascending destination.
  template <bool kWaiting>
  [[gnu::always_inline]] void send_some(TensorPosition tensor, DeviceId from, Nanoseconds ready) {
    const IdRange<Edge> edges = graph_.edges(tensor);
    DeviceId* const receivers = workspace_.receivers.data();
    std::uint32_t count = 0;
    if (kWaiting && !all_wait_)  // clear the marks of transfers that did not wait
      for (const Edge edge : edges) sent_[ops_[graph_.consumer(edge)].device].tensor = TensorPosition::none();
    for (const Edge edge : edges) {
      const DeviceId to = ops_[graph_.consumer(edge)].device;
      if (to == from || sent_[to].tensor == tensor || waits(tensor, from, to) != kWaiting) continue;
      sent_[to].tensor = tensor;
      receivers[count++] = to;
    }
    if (count == 0) return;
    if (count > 1) std::sort(receivers, receivers + count);
    DeviceId broadcast;  // lowest device that a broadcast serves: its transfer serves all
    for (std::uint32_t i = 0; i < count; ++i) {
      const DeviceId to = receivers[i];
      if (problem_.broadcasts && problem_.broadcast(from, to)) {
        if (!broadcast.is_none()) {
          sent_[to].arrival = sent_[broadcast].arrival;
          continue;
        }
        broadcast = to;
      }
      const Slot slot = next_slot(tensor);
      sent_[to].arrival =
          kWaiting ? hold_route(tensor, from, to, ready, slot) : Base::arrive(tensor, from, to, ready, slot);
    }
    for (const Edge edge : edges) {
      const Position consumer = graph_.consumer(edge);
      const DeviceId to = ops_[consumer].device;
      if (to != from && sent_[to].tensor == tensor) satisfy(consumer, sent_[to].arrival);
    }
  }

  /// Sends the tensor over all channels of its route at once and returns its arrival time at `to`.
  [[gnu::always_inline]] Nanoseconds hold_route(TensorPosition tensor, DeviceId from, DeviceId to, Nanoseconds ready,
                                                Slot slot) {
    // All short routes take the same number of steps, so branches are predictable.
    const Nanoseconds time = problem_.transfer_time(tensor, from, to);
    const Nanoseconds start = problem_.short_routes ? hold(problem_.short_route(from, to).channels, ready, time)
                                                    : hold(problem_.channels_of(problem_.route(from, to)), ready, time);
    record_transfer(slot, tensor, to, ready, start, start + time);
    return start + time;
  }
  template <class Channels>
  [[gnu::always_inline]] Nanoseconds hold(const Channels& channels, Nanoseconds start, Nanoseconds time) {
    for (const ChannelId channel : channels) start = std::max(start, channel_free_[channel]);
    const Nanoseconds end = start + time;
    for (const ChannelId channel : channels) channel_free_[channel] = end + problem_.channel_gap[channel];
    return start;
  }

  /// The latest time at which many channels become free. Two chains of comparisons, because each waits for the one
  /// before it.
  Nanoseconds latest_free(const std::vector<ChannelId>& channels) const {
    Nanoseconds even{0}, odd{0};
    const ChannelId *at = channels.data(), *const last = at + channels.size();
    for (; last - at >= 2; at += 2) {
      even = std::max(even, channel_free_[at[0]]);
      odd = std::max(odd, channel_free_[at[1]]);
    }
    return std::max(at != last ? std::max(even, channel_free_[*at]) : even, odd);
  }
  /// Runs a collective. Its op occupies no device; it starts and ends at the end of the collective.
  void run_collective(Position op, Nanoseconds ready) {
    const CollectiveRun& run = workspace_.collectives.of(problem_.op_id(op));
    const Nanoseconds start = std::max(ready, latest_free(run.channels)), end = start + run.time;
    if (problem_.channel_gaps)
      for (const ChannelId channel : run.channels) channel_free_[channel] = end + problem_.channel_gap[channel];
    else
      for (const ChannelId channel : run.channels) channel_free_[channel] = end;
    last_ = std::max(last_, end);
    record_op(op, end, end);
    record_collective(op, ready, start, end);
    graph_.each_before(op, [&](Position later) { satisfy<kLinks == Links::queued>(later, end); });
  }

  // --- the record ---

  [[gnu::always_inline]] void record_op(Position op, Nanoseconds start, Nanoseconds end) {
    if constexpr (kRecord) workspace_.record.ops[problem_.op_id(op)] = {start, end};
  }
  [[gnu::always_inline]] void record_transfer(Slot slot, TensorPosition, DeviceId to, Nanoseconds ready,
                                              Nanoseconds start, Nanoseconds end) {
    if constexpr (kRecord) workspace_.record.transfers[slot] = {ready, start, end, to};
  }
  void record_collective(Position op, Nanoseconds ready, Nanoseconds start, Nanoseconds end) {
    if constexpr (kRecord) workspace_.record.collectives.push_back({problem_.op_id(op), ready, start, end});
  }
  [[gnu::always_inline]] void record_count(TensorPosition tensor, std::uint32_t transfers) {
    if constexpr (kRecord) workspace_.record.transfer_count[problem_.tensor_id(tensor)] = transfers;
  }
  [[gnu::always_inline]] Slot next_slot(TensorPosition tensor) {
    if constexpr (!kRecord) return Slot::none();
    return problem_.slot(tensor, workspace_.record.transfer_count[problem_.tensor_id(tensor)]++);
  }

  Workspace& workspace_;
  StrictTurns& turns_ = workspace_.turns;
  Queue& queue_;
  const Schedule& schedule_;
  const Nanoseconds* const duration_;
  const std::size_t columns_;  // 0: duration_ is indexed by op only
  const bool by_id_;
  const bool closed_links_;
  const bool all_wait_;
  const bool zeros_;  // whether some op may take no time
  const bool collectives_;
  OpId* started_ = nullptr;
  Nanoseconds last_;
};

}  // namespace
}  // namespace trainyard::detail
