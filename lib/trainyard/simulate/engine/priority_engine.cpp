#include "trainyard/simulate/engine/priority_engine.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "trainyard/simulate/engine/destinations.hpp"

namespace trainyard::detail {
namespace {

constexpr Nanoseconds kNever = PriorityLines::kNever;

/// Link tasks: a transfer by its slot; a collective by the number of edges plus its op. This is the order of the ids
/// that breaks ties.
template <bool kStrict, bool kRecord>
class PriorityWalk {
  friend StrictTurns;

 public:
  PriorityWalk(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
               Workspace& workspace)
      : problem_(problem),
        work_(workspace.walk),
        lines_(workspace.lines),
        turns_(workspace.turns),
        in_place_(workspace.collectives),
        record_(workspace.record),
        given_(durations),
        zeros_(problem.zero_durations || durations != nullptr),
        collectives_(problem.collectives),
        closed_(durations == nullptr && !problem.collectives),
        pairs_(problem.links == DenseProblem::Links::pairs && durations == nullptr) {
    start(schedule);
  }

  Nanoseconds run() {
    for (const Position source : problem_.sources) ready(source, Nanoseconds{0});
    drain();
    for (;;) {
      if constexpr (kStrict) turns_.run(problem_, *this);
      if (!(lines_.arrived.empty() && lines_.to_look_at.empty()) && lines_.wakes.first_time() > now_) {
        look_at_links();
        continue;
      }
      Wake wake{};
      if (!lines_.wakes.take(wake)) break;
      now_ = wake.time;
      if (wake.what < problem_.devices) {
        wake_device(DeviceId{wake.what});
        continue;
      }
      const std::size_t what = wake.what - problem_.devices;
      if (const Slot slot{what / 2}; what % 2 == 0)
        lines_.arrived.push_back({0, now_, slot});
      else
        lines_.to_look_at.push_back(slot);
    }
    return kStrict && !turns_.over() ? kDeadlock : last_;
  }

 private:
  void start(const Schedule& schedule) {
    if (collectives_) in_place_.place(schedule.placement);
    lines_.clear(problem_);
    work_.clear();
    for (const Position at : problem_.positions()) {
      const OpId op = problem_.op_id(at);
      const DeviceId device = schedule.placement[op];
      ops_[at] = {Nanoseconds{0}, problem_.pending[at], device};
      lines_.urgency[at] = urgency_key(schedule.priority[op]);
      ++lines_.devices[device].ops;
    }
    if constexpr (kStrict)
      turns_.start(problem_, schedule, *this);
    else
      lines_.place_devices();
  }

  Nanoseconds duration(Position op, DeviceId device) const {
    return given_ != nullptr ? given_[problem_.op_id(op).index()] : problem_.duration_of(op, device);
  }
  [[gnu::always_inline]] void wake_at(Nanoseconds time, std::size_t what) {
    lines_.wakes.push({time, static_cast<std::uint32_t>(what)});
  }

  // --- ops ---

  [[gnu::noinline]] void ready(Position op, Nanoseconds at) {
    const DeviceId device = ops_[op].device;
    if (zeros_ && duration(op, device) == Nanoseconds{0}) {
      if (collectives_ && is_collective(op)) return gather(op, at);
      record_op(op, at, at);
      last_ = std::max(last_, at);
      work_.instant.push_back(op);
    } else if constexpr (kStrict) {
      turns_.ready(problem_.op_id(op), device);
    } else {
      line_up(op, device, at);
    }
  }
  [[gnu::always_inline]] void satisfy(Position op, Nanoseconds at) {
    WalkState::Op& state = ops_[op];
    state.ready = std::max(state.ready, at);
    if (--state.pending == 0) ready(op, state.ready);
  }
  void drain() {
    while (!work_.instant.empty()) {
      const Position op = work_.instant.back();
      work_.instant.pop_back();
      finish(op, ops_[op].device, ops_[op].ready);
    }
  }

  void line_up(Position op, DeviceId device, Nanoseconds at) {
    PriorityLines::Device& line = lines_.devices[device];
    const Nanoseconds free = device_free_[device];
    if (at <= free)
      line.ready.push({lines_.urgency[op], at, problem_.op_id(op)});
    else
      line.future.push({at, op});
    const Nanoseconds wake = std::max(at, free);
    if (wake < line.wake) {
      line.wake = wake;
      wake_at(wake, device.index());
    }
  }
  void wake_device(DeviceId device) {
    PriorityLines::Device& line = lines_.devices[device];
    if (line.wake != now_) return;  // an earlier wake has handled it
    while (!line.future.empty() && line.future.first().time <= now_) {
      const FutureOp next = line.future.first();
      line.future.pop();
      line.ready.push({lines_.urgency[next.op], next.time, problem_.op_id(next.op)});
    }
    const Position op = problem_.position(line.ready.first().task);
    line.ready.pop();
    line.wake = Nanoseconds{0};  // ops that become ready now are handled below
    run_op(op, device, now_);
    line.wake = !line.ready.empty()    ? device_free_[device]
                : !line.future.empty() ? std::max(device_free_[device], line.future.first().time)
                                       : kNever;
    if (line.wake != kNever) wake_at(line.wake, device.index());
  }

  void run_op(Position op, DeviceId device, Nanoseconds start) {
    const Nanoseconds end = start + duration(op, device);
    device_free_[device] = end + problem_.device_gap[device];
    last_ = std::max(last_, end);
    record_op(op, start, end);
    if constexpr (kRecord) record_.started.push_back(problem_.op_id(op));
    finish(op, device, end);
    drain();
  }

  // For StrictTurns.
  bool takes_turn(Position op) const { return !zeros_ || duration(op, ops_[op].device) != Nanoseconds{0}; }
  bool has_all(Position op) const { return ops_[op].pending == 0; }
  void take_turn(Position op, DeviceId device) { run_op(op, device, std::max(ops_[op].ready, device_free_[device])); }

  void finish(Position op, DeviceId device, Nanoseconds end) {
    const IdRange<TensorPosition> tensors = graph_.outputs(op);
    // Transfers of one op compete if they share a channel.
    const bool alone = tensors.size() == 1;
    if (alone && pairs_)
      send_in_pairs(*tensors.begin(), device, end);
    else
      for (const TensorPosition tensor : tensors) send_all(tensor, device, end, alone);
    graph_.each_before(op, [&](Position later) { satisfy(later, end); });
  }

  /// Sends the only tensor of an op if each pair of devices has its own channels; transfers that need not wait are not
  /// stored.
  void send_in_pairs(TensorPosition tensor, DeviceId device, Nanoseconds end) {
    auto& waiting = work_.destinations;
    waiting.clear();
    std::size_t transfers = 0;
    for (const Edge edge : graph_.edges(tensor)) {
      const Position op = graph_.consumer(edge);
      const DeviceId to = ops_[op].device;
      if (to == device) {
        satisfy(op, end);
        continue;
      }
      WalkState::Sent& sent = work_.sent[to];
      if (sent.tensor != tensor) {
        sent.tensor = tensor;
        const DenseProblem::Pair pair = problem_.pair(device, to);
        const Nanoseconds time = problem_.transfer_time(tensor, pair);
        sent.last_edge = Edge::none();
        if (time == Nanoseconds{0} || pair.channel.is_none()) {
          sent.arrival = end + time;
        } else if (is_free(pair.channel, end)) {
          sent.arrival = end + time;
          channel_free_[pair.channel] = sent.arrival + problem_.channel_gap[pair.channel];
        } else {
          sent.last_edge = edge;
          work_.next_edge[edge] = Edge::none();
          waiting.push_back({to, edge, {}});
          continue;
        }
        if constexpr (kRecord) record_.transfers[problem_.slot(tensor, transfers)] = {end, end, sent.arrival, to};
        ++transfers;
      }
      if (sent.last_edge.is_none()) {
        satisfy(op, sent.arrival);
      } else if (sent.last_edge != edge) {
        work_.next_edge[sent.last_edge] = edge;
        work_.next_edge[edge] = Edge::none();
        sent.last_edge = edge;
      }
    }
    record_count(tensor, transfers + waiting.size());
    for (const auto& transfer : waiting)
      send(problem_.slot(tensor, transfers++), tensor, device, transfer.device, transfer.first_edge, end, false);
  }

  /// `alone`: the op has no other tensor.
  void send_all(TensorPosition tensor, DeviceId device, Nanoseconds end, bool alone) {
    find_destinations(problem_, work_, tensor, device, [&](Position consumer) { satisfy(consumer, end); });
    const auto& destinations = work_.destinations;
    record_count(tensor, destinations.size());
    const bool one = alone && (problem_.links == DenseProblem::Links::pairs || destinations.size() == 1);
    for (std::size_t i = 0; i < destinations.size(); ++i)
      send(problem_.slot(tensor, i), tensor, device, destinations[i].device, destinations[i].first_edge, end, one);
  }

  // --- transfers ---

  /// Whether the channel is free at `end`, with no task in line or about to join it.
  bool is_free(ChannelId channel, Nanoseconds end) const {
    return channel_free_[channel] <= end && lines_.nobody(channel) && lines_.channels[channel].coming == 0;
  }

  /// `one`: no other transfer of this instant needs the channel.
  void send(Slot slot, TensorPosition tensor, DeviceId from, DeviceId to, Edge edge, Nanoseconds end, bool one) {
    const DenseProblem::Pair pair = problem_.pair(from, to);
    const Nanoseconds time = problem_.transfer_time(tensor, pair);
    if (time == Nanoseconds{0} || pair.channel.is_none()) return carry(slot, to, edge, end, end, time);
    const bool closed = closed_ && problem_.closed(from, to);
    if (one && closed && is_free(pair.channel, end)) {
      channel_free_[pair.channel] = end + time + problem_.channel_gap[pair.channel];
      return carry(slot, to, edge, end, end, time);
    }
    const DenseProblem::RouteChannels route = problem_.route(from, to);
    work_.sending[slot] = {time, edge, to, route};
    wait(slot, problem_.channels_of(route), end);
  }

  /// Makes the task wait for its channels (at least one) from its ready time on.
  template <class Channels>
  void wait(Slot slot, const Channels& channels, Nanoseconds ready) {
    // No task can start on a channel before it is free, so tasks that become ready until then can join the line now.
    bool all_busy = true;
    for (const ChannelId channel : channels) all_busy = all_busy && channel_free_[channel] >= ready;
    if (all_busy) return enter(channels, {urgency(slot), ready, slot});
    if (closed_)
      for (const ChannelId channel : channels) ++lines_.channels[channel].coming;
    wake_at(ready, problem_.devices + 2 * slot.index());
  }

  std::uint64_t urgency(Slot slot) const {
    std::uint64_t most = ~std::uint64_t{0};
    if (!is_collective(slot)) {
      for (Edge edge = work_.sending[slot].first_edge; !edge.is_none(); edge = work_.next_edge[edge])
        most = std::min(most, lines_.urgency[graph_.consumer(edge)]);
      return most;
    }
    bool members = false;
    graph_.each_before(collective(slot), [&](Position member) {
      most = std::min(most, lines_.urgency[member]);
      members = true;
    });
    return members ? most : urgency_key(0);
  }

  template <class Channels>
  void enter(const Channels& channels, const TransferInLine& waiting) {
    std::uint32_t behind = 0;
    for (const ChannelId channel : channels) {
      const Slot before = lines_.nobody(channel) ? Slot::none() : lines_.first(channel).task;
      lines_.enter(channel, waiting);
      if (lines_.first(channel).task != waiting.task)
        ++behind;
      else if (!before.is_none())
        ++lines_.behind[before];
    }
    lines_.behind[waiting.task] = behind;
    if (behind == 0) look_later(waiting.task, channels);
  }
  /// The task is first in all its lines. It starts when all channels are free, if it still is first.
  template <class Channels>
  void look_later(Slot slot, const Channels& channels) {
    Nanoseconds free = now_;
    for (const ChannelId channel : channels) free = std::max(free, channel_free_[channel]);
    if (free > now_)
      wake_at(free, problem_.devices + 2 * slot.index() + 1);
    else
      lines_.to_look_at.push_back(slot);
  }

  void look_at_links() {
    let_in();
    for (std::size_t i = 0; i < lines_.to_look_at.size(); ++i) look_at(lines_.to_look_at[i]);
    lines_.to_look_at.clear();
    drain();
  }
  /// Handles the tasks that became ready now, most urgent first: starts those whose channels are all free and have no
  /// line.
  void let_in() {
    auto& arrived = lines_.arrived;
    if (arrived.size() > 1) {
      for (TransferInLine& each : arrived) each.urgency = urgency(each.task);
      std::ranges::sort(arrived);
    }
    for (TransferInLine& each : arrived)
      with_channels(each.task, [&](const auto& channels) {
        bool may_start = true;
        for (const ChannelId channel : channels) {
          if (closed_) --lines_.channels[channel].coming;
          may_start = may_start && channel_free_[channel] <= now_ && lines_.nobody(channel);
        }
        if (may_start) return hold(each, channels);
        if (arrived.size() == 1) each.urgency = urgency(each.task);
        enter(channels, each);
      });
    arrived.clear();
  }
  void look_at(Slot slot) {
    if (lines_.behind[slot] != 0) return;  // another task came first, or it has started
    with_channels(slot, [&](const auto& channels) {
      for (const ChannelId channel : channels)
        if (channel_free_[channel] > now_) return;
      lines_.behind[slot] = PriorityLines::kGone;
      const TransferInLine first = lines_.first(*channels.begin());
      for (const ChannelId channel : channels) lines_.leave(channel);
      hold(first, channels);
      for (const ChannelId channel : channels) {
        if (lines_.nobody(channel)) continue;
        const Slot next = lines_.first(channel).task;
        if (--lines_.behind[next] == 0) with_channels(next, [&](const auto& all) { look_later(next, all); });
      }
    });
  }
  /// Starts the task now.
  template <class Channels>
  void hold(const TransferInLine& task, const Channels& channels) {
    if (is_collective(task.task)) {
      const Position op = collective(task.task);
      hold(channels, run_of(op).time);
      return end_collective(op, task.ready, now_);
    }
    const WalkState::Sending sending = work_.sending[task.task];
    hold(channels, sending.time);
    carry(task.task, sending.to, sending.first_edge, task.ready, now_, sending.time);
  }
  template <class Channels>
  void hold(const Channels& channels, Nanoseconds time) {
    for (const ChannelId channel : channels) channel_free_[channel] = now_ + time + problem_.channel_gap[channel];
  }
  template <class Visit>
  void with_channels(Slot slot, const Visit& visit) {
    if (is_collective(slot))
      visit(run_of(collective(slot)).channels);
    else
      visit(problem_.channels_of(work_.sending[slot].route));
  }

  // --- collectives ---

  bool is_collective(Position op) const { return problem_.problem.graph().collective(problem_.op_id(op)) != nullptr; }
  bool is_collective(Slot slot) const { return slot.index() >= problem_.edges; }
  Position collective(Slot slot) const { return problem_.position(OpId{slot.index() - problem_.edges}); }
  const CollectiveRun& run_of(Position op) { return in_place_.of(problem_.op_id(op)); }

  /// Handles a collective whose dependencies are all met.
  [[gnu::noinline]] void gather(Position op, Nanoseconds at) {
    const CollectiveRun& run = run_of(op);
    if (run.time == Nanoseconds{0} || run.channels.empty()) return end_collective(op, at, at);
    wait(Slot{problem_.edges + problem_.op_id(op).index()}, run.channels, at);
  }
  /// Ends a collective. Its op occupies no device; it starts and ends at that instant.
  void end_collective(Position op, Nanoseconds ready, Nanoseconds start) {
    const Nanoseconds end = start + run_of(op).time;
    if constexpr (kRecord) record_.collectives.push_back({problem_.op_id(op), ready, start, end});
    record_op(op, end, end);
    last_ = std::max(last_, end);
    ops_[op].ready = end;
    work_.instant.push_back(op);
  }

  void carry(Slot slot, DeviceId to, Edge edge, Nanoseconds ready, Nanoseconds start, Nanoseconds time) {
    if constexpr (kRecord) record_.transfers[slot] = {ready, start, start + time, to};
    for (; !edge.is_none(); edge = work_.next_edge[edge]) satisfy(graph_.consumer(edge), start + time);
  }
  void record_op(Position op, Nanoseconds start, Nanoseconds end) {
    if constexpr (kRecord) record_.ops[problem_.op_id(op)] = {start, end};
  }
  void record_count(TensorPosition tensor, std::size_t transfers) {
    if constexpr (kRecord) record_.transfer_count[problem_.tensor_id(tensor)] = static_cast<std::uint32_t>(transfers);
  }

  const DenseProblem& problem_;
  const DenseGraph graph_{problem_.graph};
  WalkState& work_;
  PriorityLines& lines_;
  StrictTurns& turns_;
  CollectivesInPlace& in_place_;
  Record& record_;
  const IdArray<Position, WalkState::Op> ops_{work_.ops.data()};
  const IdArray<DeviceId, Nanoseconds> device_free_{work_.device_free.data()};
  const IdArray<ChannelId, Nanoseconds> channel_free_{work_.channel_free.data()};
  const Nanoseconds* const given_;
  const bool zeros_;  // whether some op may take no time
  const bool collectives_;
  const bool closed_;  // whether DenseProblem::closed may be relied on
  const bool pairs_;   // whether DenseProblem::Links::pairs may be relied on
  Nanoseconds now_, last_;
};

}  // namespace

Nanoseconds run_priorities(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                           bool record, Workspace& workspace) {
  assert(schedule.links_by_priority());
  assert(!problem.problem.cluster().has_fair_channels());
  workspace.walk.prepare_sending(problem);
  if (durations != nullptr) workspace.walk.instant.reserve(problem.ops);
  if (record) {
    workspace.record.prepare(problem);
    workspace.record.in_order = true;
  }
  return with_flag(schedule.policy == Policy::strict, [&](auto strict) {
    return with_flag(record, [&](auto recorded) {
      return PriorityWalk<decltype(strict)::value, decltype(recorded)::value>{problem, schedule, durations, workspace}
          .run();
    });
  });
}

}  // namespace trainyard::detail
