#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/model/device_queue.hpp"
#include "trainyard/simulate/model/dispatch_rule.hpp"
#include "trainyard/simulate/model/event_queue.hpp"
#include "trainyard/simulate/model/fair_flows.hpp"
#include "trainyard/simulate/model/link_queue.hpp"
#include "trainyard/simulate/model/run_state.hpp"
#include "trainyard/simulate/model/slowed_ops.hpp"
#include "trainyard/simulate/model/transfers.hpp"

namespace trainyard::detail {

/// Thrown for a transfer whose urgency is NaN.
struct NoUrgency {
  TensorId tensor;  // none: a collective
};

/// The model of simulate/simulate.hpp as a discrete-event simulation. A task x (an op, transfer or collective) becomes
/// ready at r(x), when the last of its dependencies is met. It starts when it has its resources: an op its device, a
/// transfer all serial channels of its route, a collective those of all its hops. It ends p(x) later.
///
///     now = 0; every op without dependencies becomes ready
///     loop
///       complete    process all events of this instant. When an op ends, its device is released, its tensors become
///                   available, and its transfers become ready. When a transfer ends, its channels are released and its
///                   tensor is available. A task whose dependencies are met joins the queue of its device or channels
///       dispatch    every idle device takes the first op of its queue in the order of the rule, or holds it back;
///                   every transfer that is first in all its queues starts, if all its channels are idle
///       now = the time of the earliest event
///
/// Nothing starts before everything that ends at the instant has ended, so the order of its events cannot matter.
///
/// The end of a task of zero duration is an event of the instant at which it becomes ready; the task occupies no
/// resource. A released resource with a gap becomes idle only that long after. A transfer over fair channels waits for
/// none of them: its latency passes, then its bytes flow (fair_flows.hpp). Whenever flows begin or end, the ends of
/// other flows move. So do the ends of ops slowed by copies (slowed_ops.hpp).
///
/// One event per task and per gap, and one per change of a flow's end: O(n log n) with the rules of a schedule.
template <class Rule>
class EventLoop {
 public:
  /// `durations`: op times by op id in place of the problem's; null: the problem's. All arguments must outlive the
  /// loop.
  EventLoop(const Problem& problem, const Placement& placement, const PlannedTransfers& transfers,
            const Nanoseconds* durations, const Rule& rule)
      : graph_(problem.graph()),
        cluster_(problem.cluster()),
        placement_(placement),
        transfers_(transfers),
        rule_(rule),
        run_(problem, placement, transfers),
        pending_(problem.op_count()),
        devices_(problem.device_count()),
        channels_(cluster_.channel_count()),
        link_queues_(cluster_.channel_count()) {
    for (const OpId op : graph_.ops()) {
      run_.duration_[op] = durations == nullptr ? problem.duration(op, placement[op]) : durations[op.index()];
      pending_[op] = static_cast<std::uint32_t>(graph_.inputs(op).size() + graph_.after(op).size());
    }
    for (const DeviceId device : problem.devices()) {
      devices_[device].gap = cluster_.device(device).gap;
      device_queues_.push_back(DeviceQueue<Rule>{device, rule_, run_});
    }
    for (const ChannelId channel : cluster_.channels()) channels_[channel].gap = cluster_.channel(channel).gap;
    if (cluster_.has_fair_channels()) flows_.emplace(cluster_, transfers.size());
    if (problem.copies_slow_ops() && durations == nullptr) slowed_.emplace(problem, placement, transfers);
    events_.reserve(devices_.size() + channels_.size() + 1);
  }
  EventLoop(const EventLoop&) = delete;  // the queues refer to the run
  EventLoop& operator=(const EventLoop&) = delete;

  /// Start and end of each task; call it once.
  TaskTimes run() {
    for (const OpId op : graph_.ops())
      if (pending_[op] == 0) make_ready(op);
    for (;;) {
      while (events_.has(run_.now_)) happen(events_.take());
      dispatch();
      if (flows_) update_flows();
      if (slowed_) update_ops();
      if (events_.empty()) break;
      run_.now_ = events_.earliest();
    }
    run_.times_.complete = ended_ == graph_.op_count() + transfers_.size();
    return std::move(run_.times_);
  }

 private:
  /// A resource that serves one task at a time: a device or a serial channel.
  struct Resource {
    Nanoseconds gap;
    bool idle = true;
    bool asks = false;  // at this instant it became idle, or a task joined its queue
  };

  // --- phase one: complete ---

  void happen(const Event& event) {
    switch (event.kind) {
      case Event::Kind::op_ends:
        return end(OpId{event.id});
      case Event::Kind::transfer_ends:
        return end(TransferId{event.id});
      case Event::Kind::device_idle:
        return set_idle(DeviceId{event.id});
      case Event::Kind::channel_idle:
        return set_idle(ChannelId{event.id});
      case Event::Kind::bytes_flow:
        return begin_flow(TransferId{event.id});
    }
  }

  void end(OpId op) {
    const DeviceId home = placement_[op];
    if (is_slowed(op)) {
      if (!slowed_->ends_at(op, home, run_.now_.count)) return;  // its end has moved
      slowed_->end(home);
      run_.times_.ops[op].end = run_.now_;
    }
    ++ended_;
    if (run_.duration_[op] != Nanoseconds{0}) release(home);
    for (const TensorId tensor : graph_.outputs(op)) {
      for (const OpId consumer : graph_.consumers(tensor))
        if (placement_[consumer] == home) satisfy(consumer);
      for (const TransferId transfer : transfers_.of(tensor)) make_ready(transfer);
    }
    for (const OpId later : graph_.before(op)) satisfy(later);
  }
  void end(TransferId transfer) {
    if (flows_ && !ends_flow(transfer)) return;
    ++ended_;
    if (slowed_ && transfers_.duration[transfer] != Nanoseconds{0}) slowed_->copy_ends(transfer);
    if (transfers_.duration[transfer] != Nanoseconds{0})
      for (const ChannelId channel : transfers_.channels(transfer))
        if (is_serial(channel)) release(channel);
    // The op of a collective takes no time and ends with it.
    if (const OpId op = transfers_.collective(transfer); !op.is_none()) return set_times(op);
    for (const OpId consumer : transfers_.consumers(transfer)) satisfy(consumer);
  }

  void satisfy(OpId op) {
    if (--pending_[op] == 0) make_ready(op);
  }
  void make_ready(OpId op) {
    if (graph_.collective(op)) return make_ready(transfers_.of(op));
    if (run_.duration_[op] == Nanoseconds{0}) return set_times(op);
    device_queues_[placement_[op]].push(op);
    ask(placement_[op]);
  }
  void make_ready(TransferId transfer) {
    run_.times_.transfer_ready[transfer] = run_.now_;
    if (transfers_.duration[transfer] == Nanoseconds{0}) return set_times(transfer);
    const LinkQueue::Entry entry{urgency(transfer), run_.now_, transfer};
    bool waits = false;
    for (const ChannelId channel : transfers_.channels(transfer)) {
      if (!is_serial(channel)) continue;
      waits = true;
      link_queues_[channel].push(entry);
      ask(channel);
    }
    if (!waits) start(transfer);
  }
  double urgency(TransferId transfer) const {
    if constexpr (RanksTransfers<Rule>) {
      const double urgency = rule_.urgency({transfers_.tensor[transfer], transfers_.from[transfer],
                                            transfers_.to[transfer], transfers_.consumers(transfer), run_});
      if (std::isnan(urgency)) throw NoUrgency{transfers_.tensor[transfer]};
      return urgency;
    }
    return 0;
  }

  // --- phase two: dispatch ---

  /// A task can start only on resources that were released, that a task joined, or that the rule held back.
  void dispatch() {
    if constexpr (AsksAgain<Rule>) {
      for (const DeviceId device : held_back_) ask(device);
      held_back_.clear();
    }
    if constexpr (AsksAgain<Rule> || !FixedOrder<Rule>) std::ranges::sort(asking_devices_);
    for (const DeviceId device : asking_devices_) {
      devices_[device].asks = false;
      if (!devices_[device].idle) continue;
      if (const OpId op = device_queues_[device].take(); !op.is_none())
        start(op);
      else if (AsksAgain<Rule> && !device_queues_[device].empty())
        held_back_.push_back(device);
    }
    asking_devices_.clear();
    for (const ChannelId channel : asking_channels_) {
      channels_[channel].asks = false;
      if (!channels_[channel].idle || link_queues_[channel].empty()) continue;
      if (const TransferId first = link_queues_[channel].first(); has_turn(first)) take_channels(first);
    }
    asking_channels_.clear();
  }

  bool has_turn(TransferId transfer) const {
    return std::ranges::all_of(transfers_.channels(transfer), [&](ChannelId channel) {
      return !is_serial(channel) || (channels_[channel].idle && link_queues_[channel].first() == transfer);
    });
  }
  void take_channels(TransferId transfer) {
    for (const ChannelId channel : transfers_.channels(transfer)) {
      if (!is_serial(channel)) continue;
      link_queues_[channel].pop();
      channels_[channel].idle = false;
    }
    start(transfer);
  }

  void start(OpId op) {
    const DeviceId device = placement_[op];
    devices_[device].idle = false;
    ++run_.started_[device];
    run_.last_[device] = op;
    set_times(op);
  }
  void start(TransferId transfer) {
    if (slowed_) slowed_->copy_begins(transfer);
    if (is_shared(transfer))
      start_flow(transfer);
    else
      set_times(transfer);
  }
  void set_times(OpId op) {
    if (is_slowed(op)) {
      run_.times_.ops[op] = {run_.now_, kLongestTime};
      return slowed_->begin(op, placement_[op], run_.duration_[op], run_.now_.count);
    }
    const Nanoseconds end = run_.now_ + run_.duration_[op];
    run_.times_.ops[op] = {run_.now_, end};
    push(end, Event::Kind::op_ends, op);
  }
  void set_times(TransferId transfer) {
    const Nanoseconds end = run_.now_ + transfers_.duration[transfer];
    run_.times_.transfers[transfer] = {run_.now_, end};
    push(end, Event::Kind::transfer_ends, transfer);
  }

  // --- devices and channels ---

  Resource& resource(DeviceId device) { return devices_[device]; }
  Resource& resource(ChannelId channel) { return channels_[channel]; }
  /// Whether transfers take turns on the channel.
  bool is_serial(ChannelId channel) const { return !cluster_.channel(channel).fair; }

  template <class Id>
  void release(Id id) {
    constexpr auto kIdle = std::is_same_v<Id, DeviceId> ? Event::Kind::device_idle : Event::Kind::channel_idle;
    const Nanoseconds gap = resource(id).gap;
    if (gap == Nanoseconds{0})
      set_idle(id);
    else
      push(run_.now_ + gap, kIdle, id);
  }
  template <class Id>
  void set_idle(Id id) {
    resource(id).idle = true;
    ask(id);
  }
  void ask(DeviceId device) {
    if (!std::exchange(devices_[device].asks, true)) asking_devices_.push_back(device);
  }
  void ask(ChannelId channel) {
    if (!std::exchange(channels_[channel].asks, true)) asking_channels_.push_back(channel);
  }
  template <class Id>
  void push(Nanoseconds time, Event::Kind kind, Id id) {
    events_.push({time, static_cast<std::uint32_t>(id.index()), kind});
  }

  // --- fair channels: latency, then a flow ---

  bool is_shared(TransferId transfer) const {
    return flows_ && !std::ranges::all_of(transfers_.channels(transfer), [&](ChannelId c) { return is_serial(c); });
  }
  Nanoseconds latency(TransferId transfer) const {
    if (!transfers_.collective(transfer).is_none()) return transfers_.run(transfer).latency;
    return run_.problem_.transfer_latency(transfers_.from[transfer], transfers_.to[transfer]);
  }
  bool is_flow(TransferId transfer) const {
    return is_shared(transfer) && transfers_.duration[transfer] != latency(transfer);
  }

  void start_flow(TransferId transfer) {
    if (!is_flow(transfer)) return set_times(transfer);
    run_.times_.transfers[transfer] = {run_.now_, kLongestTime};
    const Nanoseconds latency = this->latency(transfer);
    if (latency == Nanoseconds{0})
      begin_flow(transfer);
    else
      push(run_.now_ + latency, Event::Kind::bytes_flow, transfer);
  }
  void begin_flow(TransferId transfer) {
    const DeviceId from = transfers_.from[transfer], to = transfers_.to[transfer];
    flows_->begin(transfer, transfers_.duration[transfer] - latency(transfer), cluster_.route(from, to).bandwidth,
                  transfers_.channels(transfer), transfers_.load(transfer), run_.now_.count);
  }
  /// False if the transfer is a flow whose end has moved.
  bool ends_flow(TransferId transfer) {
    if (!is_flow(transfer)) return true;
    if (!flows_->ends_at(transfer, run_.now_.count)) return false;
    flows_->end(transfer);
    run_.times_.transfers[transfer].end = run_.now_;
    return true;
  }
  void update_flows() {
    for (const FairFlows::End& end : flows_->update(run_.now_.count))
      push(Nanoseconds{end.time}, Event::Kind::transfer_ends, end.flow);
  }

  // --- ops slowed by copies: their ends move like those of flows ---

  bool is_slowed(OpId op) const { return slowed_ && run_.duration_[op] != Nanoseconds{0}; }
  void update_ops() {
    for (const SlowedOps::End& end : slowed_->update(run_.now_.count))
      push(Nanoseconds{end.time}, Event::Kind::op_ends, end.op);
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const Placement& placement_;
  const PlannedTransfers& transfers_;
  const Rule& rule_;
  RunState run_;

  IdMap<OpId, std::uint32_t> pending_;  // inputs and control dependencies that are still missing
  IdMap<DeviceId, Resource> devices_;
  IdMap<ChannelId, Resource> channels_;
  IdMap<DeviceId, DeviceQueue<Rule>> device_queues_;
  IdMap<ChannelId, LinkQueue> link_queues_;
  std::vector<DeviceId> asking_devices_;
  std::vector<DeviceId> held_back_;  // idle devices with waiting ops
  std::vector<ChannelId> asking_channels_;
  EventQueue events_;
  std::optional<FairFlows> flows_;   // if the cluster has fair channels
  std::optional<SlowedOps> slowed_;  // if copies slow ops
  std::size_t ended_ = 0;
};

}  // namespace trainyard::detail
