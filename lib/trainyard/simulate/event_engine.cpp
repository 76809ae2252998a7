#include "trainyard/simulate/event_engine.hpp"

#include <algorithm>
#include <boost/heap/d_ary_heap.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/simulate/fair_flows.hpp"
#include "trainyard/simulate/waiting_lines.hpp"

namespace trainyard::detail {
namespace {

/// Something that happens at a time: a task ends, a resource's gap does, or the latency of a transfer that goes over
/// fair channels. Tasks are numbered ops first, then transfers; resources devices first, then channels, and count on
/// after the tasks; transfers whose latency ends, after the resources. The end of a flow is outdated where FairFlows
/// says so.
struct Event {
  std::int64_t time = 0;
  std::uint32_t what = 0;
};
struct Later {
  bool operator()(const Event& a, const Event& b) const { return a.time > b.time; }
};
// Within 2 % of std::priority_queue on the graphs of bench/simulate_bench.cpp, and 8 children are slower on 64 devices;
// chosen because it can reserve, so that the loop allocates nothing.
using EventQueue = boost::heap::d_ary_heap<Event, boost::heap::arity<4>, boost::heap::compare<Later>>;

class Engine {
 public:
  Engine(const Problem& problem, const Schedule& schedule, const PlannedTransfers& transfers,
         const Nanoseconds* durations)
      : problem_(problem),
        graph_(problem.graph()),
        schedule_(schedule),
        transfers_(transfers),
        ops_(problem.op_count()),
        tasks_(ops_ + transfers.size()),
        devices_(problem.device_count()),
        strict_(schedule.policy == Policy::strict),
        duration_(ops_),
        pending_(ops_),
        idle_(devices_ + problem.cluster().channel_count(), 1),
        touched_flag_(idle_.size(), 0),
        gap_(idle_.size()),
        lines_(line_capacities()) {
    times_.ops = IdMap<OpId, Span>(ops_, {Nanoseconds{-1}, Nanoseconds{-1}});
    times_.transfer_ready = IdMap<TransferId, Nanoseconds>(transfers.size());
    times_.transfers = IdMap<TransferId, Span>(transfers.size());
    for (const OpId op : graph_.ops()) {
      duration_[op] = durations == nullptr ? problem.duration(op, schedule.placement[op]) : durations[op.index()];
      pending_[op] = static_cast<std::uint32_t>(graph_.inputs(op).size() + graph_.after(op).size());
    }
    for (const DeviceId device : problem.devices()) gap_[device.index()] = problem.cluster().device(device).gap.count;
    for (const ChannelId channel : problem.cluster().channels())
      gap_[line_of(channel)] = problem.cluster().channel(channel).gap.count;
    if (problem.cluster().has_fair_channels()) flows_.emplace(problem.cluster(), transfers.size());
    if (strict_) next_in_order_.assign(devices_, 0);
    if (schedule.policy == Policy::priority && !schedule.priority.empty()) find_urgencies();
    events_.reserve(idle_.size() + 1);
    touched_.reserve(idle_.size());
  }

  TaskTimes run() && {
    for (const OpId op : graph_.ops())
      if (pending_[op] == 0) make_ready(op);
    settle();
    dispatch();
    update_flows();
    while (!events_.empty()) {
      now_ = events_.top().time;
      while (!events_.empty() && events_.top().time == now_) {
        const std::uint32_t what = events_.top().what;
        events_.pop();
        happen(what);
      }
      settle();
      dispatch();
      update_flows();
    }
    times_.complete = ended_ == tasks_;
    return std::move(times_);
  }

 private:
  // Resources: devices, then channels.
  static std::size_t line_of(DeviceId device) { return device.index(); }
  std::size_t line_of(ChannelId channel) const { return devices_ + channel.index(); }
  /// Transfers take turns on it.
  bool is_serial(ChannelId channel) const { return !problem_.cluster().channel(channel).fair; }
  bool is_shared(TransferId transfer) const {
    return flows_ && !std::ranges::all_of(transfers_.channels[transfer], [&](ChannelId c) { return is_serial(c); });
  }

  std::vector<std::uint32_t> line_capacities() const {
    std::vector<std::uint32_t> capacities(devices_ + problem_.cluster().channel_count(), 0);
    if (!strict_)
      for (const OpId op : graph_.ops()) ++capacities[line_of(schedule_.placement[op])];
    for (const TransferId transfer : transfers_.ids())
      for (const ChannelId channel : transfers_.channels[transfer])
        if (is_serial(channel)) ++capacities[line_of(channel)];
    return capacities;
  }

  void find_urgencies() {
    urgency_.resize(tasks_);
    for (const OpId op : graph_.ops()) urgency_[op.index()] = urgency_key(schedule_.priority[op]);
    for (const TransferId transfer : transfers_.ids()) {
      std::uint64_t most = ~std::uint64_t{0};
      for (const OpId op : transfers_.consumers(transfer)) most = std::min(most, urgency_[op.index()]);
      urgency_[ops_ + transfer.index()] = most;
    }
  }
  Waiting waiting(std::size_t task) const {
    return {urgency_.empty() ? 0 : urgency_[task], now_, static_cast<std::uint32_t>(task)};
  }

  // --- phase one: completions ---

  void happen(std::uint32_t what) {
    if (what < ops_) {
      const OpId op{what};
      release(line_of(schedule_.placement[op]));
      end(op);
    } else if (what < tasks_) {
      const TransferId transfer{what - ops_};
      if (flows_ && !end_flow(transfer)) return;
      for (const ChannelId channel : transfers_.channels[transfer])
        if (is_serial(channel)) release(line_of(channel));
      end(transfer);
    } else if (what < tasks_ + idle_.size()) {
      set_idle(what - tasks_);
    } else {
      begin_flow(TransferId{what - tasks_ - idle_.size()});
    }
  }
  void release(std::size_t line) {
    if (gap_[line] == 0)
      set_idle(line);
    else
      events_.push({now_ + gap_[line], static_cast<std::uint32_t>(tasks_ + line)});
  }
  void set_idle(std::size_t line) {
    idle_[line] = 1;
    touch(line);
  }
  void touch(std::size_t line) {
    if (touched_flag_[line]) return;
    touched_flag_[line] = 1;
    touched_.push_back(static_cast<std::uint32_t>(line));
  }

  void end(OpId op) {
    ++ended_;
    const DeviceId home = schedule_.placement[op];
    for (const TensorId tensor : graph_.outputs(op)) {
      for (const OpId consumer : graph_.consumers(tensor))
        if (schedule_.placement[consumer] == home) satisfy(consumer);
      for (const TransferId transfer : transfers_.of(tensor)) make_ready(transfer);
    }
    for (const OpId later : graph_.before(op)) satisfy(later);
  }
  void end(TransferId transfer) {
    ++ended_;
    for (const OpId consumer : transfers_.consumers(transfer)) satisfy(consumer);
  }
  void satisfy(OpId op) {
    if (--pending_[op] == 0) make_ready(op);
  }

  void make_ready(OpId op) {
    if (duration_[op].count == 0) {
      times_.ops[op] = {Nanoseconds{now_}, Nanoseconds{now_}};
      instant_.push_back(static_cast<std::uint32_t>(op.index()));
      return;
    }
    const std::size_t line = line_of(schedule_.placement[op]);
    if (!strict_) lines_.push(line, waiting(op.index()));
    touch(line);
  }
  void make_ready(TransferId transfer) {
    const std::size_t task = ops_ + transfer.index();
    times_.transfer_ready[transfer] = Nanoseconds{now_};
    if (transfers_.duration[transfer].count == 0) {
      times_.transfers[transfer] = {Nanoseconds{now_}, Nanoseconds{now_}};
      instant_.push_back(static_cast<std::uint32_t>(task));
      return;
    }
    bool takes_turns = false;
    for (const ChannelId channel : transfers_.channels[transfer]) {
      if (!is_serial(channel)) continue;
      takes_turns = true;
      lines_.push(line_of(channel), waiting(task));
      touch(line_of(channel));
    }
    if (!takes_turns) start(transfer);
  }

  /// Ends the tasks of zero duration that became ready, and those that this makes ready; a list and not a recursion,
  /// for chains of any length.
  void settle() {
    while (!instant_.empty()) {
      const std::uint32_t task = instant_.back();
      instant_.pop_back();
      if (task < ops_)
        end(OpId{task});
      else
        end(TransferId{task - ops_});
    }
  }

  // --- phase two: dispatch ---

  /// Only what was touched can start something: a resource that became idle, or that a new task waits for.
  void dispatch() {
    for (const std::uint32_t line : touched_) {
      touched_flag_[line] = 0;
      if (!idle_[line]) continue;
      if (line >= devices_)
        dispatch_channel(line);
      else if (strict_)
        dispatch_in_order(DeviceId{line});
      else if (!lines_.empty(line)) {
        start(OpId{lines_.first(line).task});
        lines_.pop(line);
      }
    }
    touched_.clear();
  }

  void dispatch_channel(std::size_t line) {
    if (lines_.empty(line)) return;
    const Waiting candidate = lines_.first(line);
    const TransferId transfer{candidate.task - ops_};
    const auto channels = transfers_.channels[transfer];
    for (const ChannelId channel : channels)
      if (is_serial(channel) && (!idle_[line_of(channel)] || lines_.first(line_of(channel)).task != candidate.task))
        return;
    for (const ChannelId channel : channels) {
      if (!is_serial(channel)) continue;
      lines_.pop(line_of(channel));
      idle_[line_of(channel)] = 0;
    }
    start(transfer);
  }

  void dispatch_in_order(DeviceId device) {
    const std::vector<OpId>& order = schedule_.order[device];
    std::size_t& next = next_in_order_[device.index()];
    while (next < order.size() && duration_[order[next]].count == 0) ++next;
    if (next == order.size() || pending_[order[next]] != 0) return;
    start(order[next++]);
  }

  void start(OpId op) {
    idle_[line_of(schedule_.placement[op])] = 0;
    times_.ops[op] = {Nanoseconds{now_}, Nanoseconds{now_} + duration_[op]};
    events_.push({now_ + duration_[op].count, static_cast<std::uint32_t>(op.index())});
  }
  void start(TransferId transfer) {
    if (is_shared(transfer)) return start_flow(transfer);
    times_.transfers[transfer] = {Nanoseconds{now_}, Nanoseconds{now_} + transfers_.duration[transfer]};
    events_.push({now_ + transfers_.duration[transfer].count, static_cast<std::uint32_t>(ops_ + transfer.index())});
  }

  // --- fair sharing: latency, then a flow ---

  Nanoseconds latency(TransferId transfer) const {
    return problem_.transfer_latency(transfers_.from[transfer], transfers_.to[transfer]);
  }
  void start_flow(TransferId transfer) {
    const Nanoseconds now{now_}, latency = this->latency(transfer), alone = transfers_.duration[transfer] - latency;
    times_.transfers[transfer] = {now, now + latency};
    if (alone.count == 0)
      events_.push({now_ + latency.count, static_cast<std::uint32_t>(ops_ + transfer.index())});
    else if (latency.count == 0)
      begin_flow(transfer);
    else
      events_.push({now_ + latency.count, static_cast<std::uint32_t>(tasks_ + idle_.size() + transfer.index())});
  }
  void begin_flow(TransferId transfer) {
    const DeviceId from = transfers_.from[transfer], to = transfers_.to[transfer];
    flows_->begin(transfer, transfers_.duration[transfer] - latency(transfer),
                  problem_.cluster().route(from, to).bandwidth, transfers_.channels[transfer], now_);
  }
  /// False: it is a flow, and this is not its end.
  bool end_flow(TransferId transfer) {
    if (!is_shared(transfer) || transfers_.duration[transfer] == latency(transfer)) return true;
    if (!flows_->ends_at(transfer, now_)) return false;
    flows_->end(transfer);
    times_.transfers[transfer].end = Nanoseconds{now_};
    return true;
  }
  void update_flows() {
    if (!flows_) return;
    for (const FairFlows::End& end : flows_->update(now_))
      events_.push({end.time, static_cast<std::uint32_t>(ops_ + end.flow.index())});
  }

  const Problem& problem_;
  const Graph& graph_;
  const Schedule& schedule_;
  const PlannedTransfers& transfers_;
  const std::size_t ops_, tasks_, devices_;
  const bool strict_;

  IdMap<OpId, Nanoseconds> duration_;
  IdMap<OpId, std::uint32_t> pending_;      // inputs and ops to come after that have not arrived or ended
  std::vector<std::uint64_t> urgency_;      // by task; empty: all equal
  std::vector<std::uint8_t> idle_;          // by resource
  std::vector<std::uint8_t> touched_flag_;  // by resource
  std::vector<std::int64_t> gap_;           // by resource, ns
  std::vector<std::size_t> next_in_order_;  // by device, strict only
  WaitingLines lines_;
  EventQueue events_;
  std::optional<FairFlows> flows_;      // where the cluster has fair channels
  std::vector<std::uint32_t> touched_;  // resources to look at in phase two
  std::vector<std::uint32_t> instant_;  // tasks of zero duration that are to end now
  std::int64_t now_ = 0;
  std::size_t ended_ = 0;
  TaskTimes times_;
};

}  // namespace

TaskTimes run_events(const Problem& problem, const Schedule& schedule, const PlannedTransfers& transfers,
                     const Nanoseconds* durations) {
  return Engine{problem, schedule, transfers, durations}.run();
}

std::int64_t run_event_engine(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                              bool record, Workspace& workspace) {
  const PlannedTransfers planned(problem.problem, schedule.placement);
  const TaskTimes times = run_events(problem.problem, schedule, planned, durations);
  if (!times.complete) return kDeadlock;
  Nanoseconds last{0};
  for (const Span& span : times.ops) last = std::max(last, span.end);
  if (!record) return last.count;
  workspace.prepare_record(problem);
  workspace.record.ops = times.ops;
  const auto& slots = problem.problem.graph().consumer_rows().starts();
  for (const TensorId tensor : problem.problem.graph().tensors()) {
    std::uint32_t slot = slots[tensor.index()];
    workspace.record.transfers_of[tensor.index()] = static_cast<std::uint32_t>(planned.of(tensor).size());
    for (const TransferId id : planned.of(tensor))
      workspace.record.transfers[slot++] = {times.transfer_ready[id].count, times.transfers[id].start.count,
                                            times.transfers[id].end.count,
                                            static_cast<std::uint32_t>(planned.to[id].index())};
  }
  return last.count;
}

}  // namespace trainyard::detail
