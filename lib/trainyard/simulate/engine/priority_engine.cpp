#include "trainyard/simulate/engine/priority_engine.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "trainyard/simulate/engine/destinations.hpp"

namespace trainyard::detail {
namespace {

constexpr Nanoseconds kNever = PriorityLines::kNever;

template <bool kRecord>
class PriorityWalk {
 public:
  PriorityWalk(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
               Workspace& workspace)
      : problem_(problem),
        work_(workspace.walk),
        lines_(workspace.lines),
        record_(workspace.record),
        given_(durations),
        zeros_(problem.zero_durations || durations != nullptr),
        pairs_(problem.links == DenseProblem::Links::pairs && durations == nullptr) {
    start(schedule);
  }

  Nanoseconds run() {
    for (const Position source : problem_.sources) ready(source, Nanoseconds{0});
    drain();
    for (;;) {
      if (!lines_.touched.empty() && lines_.wakes.first_time() > now_) {
        look_at_channels();
        continue;
      }
      Wake wake{};
      if (!lines_.wakes.take(wake)) break;
      now_ = wake.time;
      if (wake.what < problem_.devices)
        wake_device(DeviceId{wake.what});
      else if (wake.what < problem_.devices + problem_.channels)
        touch(ChannelId{wake.what - problem_.devices});
      else
        line_up(Slot{wake.what - problem_.devices - problem_.channels});
    }
    return last_;
  }

 private:
  void start(const Schedule& schedule) {
    lines_.devices.assign(problem_.devices, {});
    lines_.ready_slots.resize(problem_.ops);
    lines_.future_slots.resize(problem_.ops);
    lines_.urgency.resize(problem_.ops);
    lines_.nodes.clear();
    lines_.free_nodes.clear();
    lines_.channels.assign(problem_.channels, {{}, kNever});
    lines_.touched.clear();
    lines_.wakes.clear();
    work_.clear();
    for (const Position at : problem_.positions()) {
      const OpId op = problem_.op_id(at);
      const DeviceId device = schedule.placement[op];
      ops_[at] = {Nanoseconds{0}, problem_.pending[at], device};
      lines_.urgency[at] = urgency_key(schedule.priority[op]);
      ++lines_.devices[device].ops;
    }
    std::size_t first = 0;
    for (PriorityLines::Device& device : lines_.devices) {
      device.ready.place(lines_.ready_slots.data() + first);
      device.future.place(lines_.future_slots.data() + first);
      device.wake = kNever;
      first += device.ops;
    }
  }

  Nanoseconds duration(Position op, DeviceId device) const {
    return given_ != nullptr ? given_[problem_.op_id(op).index()] : problem_.duration_of(op, device);
  }
  [[gnu::always_inline]] void wake_at(Nanoseconds time, std::size_t what) {
    lines_.wakes.push({time, static_cast<std::uint32_t>(what)});
  }

  // --- ops ---

  void ready(Position op, Nanoseconds at) {
    const DeviceId device = ops_[op].device;
    if (zeros_ && duration(op, device) == Nanoseconds{0}) {
      record_op(op, at, at);
      last_ = std::max(last_, at);
      work_.instant.push_back(op);
      return;
    }
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
  void satisfy(Position op, Nanoseconds at) {
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

  void wake_device(DeviceId device) {
    PriorityLines::Device& line = lines_.devices[device];
    if (line.wake != now_) return;  // it was to be looked at earlier, and was
    while (!line.future.empty() && line.future.first().time <= now_) {
      const FutureOp next = line.future.first();
      line.future.pop();
      line.ready.push({lines_.urgency[next.op], next.time, problem_.op_id(next.op)});
    }
    const Position op = problem_.position(line.ready.first().task);
    line.ready.pop();
    const Nanoseconds end = now_ + duration(op, device);
    device_free_[device] = end + problem_.device_gap[device];
    last_ = std::max(last_, end);
    record_op(op, now_, end);
    if constexpr (kRecord) record_.started.push_back(problem_.op_id(op));
    line.wake = Nanoseconds{0};  // whatever becomes ready for it now is seen to below
    finish(op, device, end);
    drain();
    line.wake = !line.ready.empty()    ? device_free_[device]
                : !line.future.empty() ? std::max(device_free_[device], line.future.first().time)
                                       : kNever;
    if (line.wake != kNever) wake_at(line.wake, device.index());
  }

  void finish(Position op, DeviceId device, Nanoseconds end) {
    const IdRange<TensorPosition> tensors = graph_.outputs(op);
    // Transfers of one op compete where they share a channel.
    const bool alone = tensors.size() == 1;
    if (alone && pairs_)
      send_in_pairs(*tensors.begin(), device, end);
    else
      for (const TensorPosition tensor : tensors) send_all(tensor, device, end, alone);
    graph_.each_before(op, [&](Position later) { satisfy(later, end); });
  }

  /// The only tensor of an op, where each pair of devices has channels of its own: what need not wait leaves no trace.
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

  /// At `end`, with nobody in line or on the way there.
  bool is_free(ChannelId channel, Nanoseconds end) const {
    return channel_free_[channel] <= end && lines_.nobody(channel) && lines_.channels[channel].coming == 0;
  }

  /// `one`: no other transfer of this moment wants its channel.
  void send(Slot slot, TensorPosition tensor, DeviceId from, DeviceId to, Edge edge, Nanoseconds end, bool one) {
    const DenseProblem::Pair pair = problem_.pair(from, to);
    const Nanoseconds time = problem_.transfer_time(tensor, pair);
    if (time == Nanoseconds{0} || pair.channel.is_none()) return carry(slot, to, edge, end, end, time);
    if (one && given_ == nullptr && problem_.closed(from, to) && is_free(pair.channel, end)) {
      channel_free_[pair.channel] = end + time + problem_.channel_gap[pair.channel];
      return carry(slot, to, edge, end, end, time);
    }
    const DenseProblem::RouteChannels route = problem_.route(from, to);
    work_.sending[slot] = {time, edge, to, route};
    // Nobody starts on a channel before it is free: who becomes ready until then may as well stand in line now.
    bool all_busy = true;
    for (const ChannelId channel : problem_.channels_of(route)) all_busy = all_busy && channel_free_[channel] >= end;
    if (all_busy) return enter(slot, end);
    for (const ChannelId channel : problem_.channels_of(route)) ++lines_.channels[channel].coming;
    wake_at(end, problem_.devices + problem_.channels + slot.index());
  }

  void enter(Slot slot, Nanoseconds at) {
    const WalkState::Sending& sending = work_.sending[slot];
    std::uint64_t urgency = ~std::uint64_t{0};
    for (Edge edge = sending.first_edge; !edge.is_none(); edge = work_.next_edge[edge])
      urgency = std::min(urgency, lines_.urgency[graph_.consumer(edge)]);
    for (const ChannelId channel : problem_.channels_of(sending.route)) {
      lines_.enter(channel, {urgency, at, slot});
      if (channel_free_[channel] > now_)
        wake_when_free(channel);
      else
        touch(channel);
    }
  }
  void wake_when_free(ChannelId channel) {
    Nanoseconds& wake = lines_.channels[channel].wake;
    if (wake == channel_free_[channel]) return;
    wake = channel_free_[channel];
    wake_at(wake, problem_.devices + channel.index());
  }
  void line_up(Slot slot) {
    for (const ChannelId channel : problem_.channels_of(work_.sending[slot].route)) --lines_.channels[channel].coming;
    enter(slot, now_);
  }
  void touch(ChannelId channel) {
    if (lines_.channels[channel].touched) return;
    lines_.channels[channel].touched = true;
    lines_.touched.push_back(channel);
  }

  void look_at_channels() {
    for (std::size_t i = 0; i < lines_.touched.size(); ++i) {
      const ChannelId channel = lines_.touched[i];
      lines_.channels[channel].touched = false;
      look_at(channel);
    }
    lines_.touched.clear();
    drain();
  }
  void look_at(ChannelId channel) {
    if (lines_.nobody(channel) || channel_free_[channel] > now_) return;
    const TransferInLine first = lines_.first(channel);
    const WalkState::Sending sending = work_.sending[first.task];
    const auto channels = problem_.channels_of(sending.route);
    for (const ChannelId other : channels)
      if (channel_free_[other] > now_ || lines_.first(other).task != first.task) return;
    for (const ChannelId other : channels) {
      lines_.leave(other);
      channel_free_[other] = now_ + sending.time + problem_.channel_gap[other];
      if (!lines_.nobody(other)) wake_when_free(other);
    }
    carry(first.task, sending.to, sending.first_edge, first.ready, now_, sending.time);
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
  Record& record_;
  const IdArray<Position, WalkState::Op> ops_{work_.ops.data()};
  const IdArray<DeviceId, Nanoseconds> device_free_{work_.device_free.data()};
  const IdArray<ChannelId, Nanoseconds> channel_free_{work_.channel_free.data()};
  const Nanoseconds* const given_;
  const bool zeros_;  // some op may take no time
  const bool pairs_;  // DenseProblem::Links::pairs may be relied on
  Nanoseconds now_, last_;
};

}  // namespace

Nanoseconds run_priorities(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                           bool record, Workspace& workspace) {
  assert(schedule.by_priority());
  assert(!problem.problem.needs_events());
  workspace.walk.prepare_sending(problem);
  if (!record) return PriorityWalk<false>{problem, schedule, durations, workspace}.run();
  workspace.record.prepare(problem);
  workspace.record.in_order = true;
  return PriorityWalk<true>{problem, schedule, durations, workspace}.run();
}

}  // namespace trainyard::detail
