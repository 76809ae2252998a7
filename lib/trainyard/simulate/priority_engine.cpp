#include "trainyard/simulate/priority_engine.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>

#include "trainyard/simulate/destinations.hpp"

namespace trainyard::detail {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

template <bool kRecord>
class PriorityWalk {
 public:
  PriorityWalk(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
               Workspace& workspace)
      : problem_(problem),
        work_(workspace),
        lines_(workspace.lines),
        ops_(workspace.ops.data()),
        device_free_(workspace.device_free.data()),
        channel_free_(workspace.channel_free.data()),
        given_(durations),
        zeros_(problem.zero_durations || durations != nullptr),
        pairs_(problem.links == DenseProblem::Links::pairs && durations == nullptr) {
    start(schedule);
  }

  std::int64_t run() {
    for (const std::uint32_t source : problem_.sources) ready(source, 0);
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
        wake_device(wake.what);
      else if (wake.what < problem_.devices + problem_.channels)
        wake_channel(wake.what - problem_.devices);
      else
        line_up(wake.what - problem_.devices - problem_.channels);
    }
    return last_;
  }

 private:
  void start(const Schedule& schedule) {
    lines_.devices.resize(problem_.devices);
    lines_.ready_slots.resize(problem_.ops);
    lines_.future_slots.resize(problem_.ops);
    lines_.urgency.resize(problem_.ops);
    lines_.nodes.clear();
    lines_.free_nodes.clear();
    lines_.first_in_line.assign(problem_.channels, PriorityLines::kNobody);
    lines_.channel_wake.assign(problem_.channels, kNever);
    lines_.touched_flag.assign(problem_.channels, 0);
    lines_.coming.assign(problem_.channels, 0);
    lines_.touched.clear();
    lines_.wakes.clear();
    work_.instant.clear();
    std::fill_n(device_free_, problem_.devices, 0);
    std::fill_n(channel_free_, problem_.channels, 0);
    for (std::uint32_t device = 0; device < problem_.devices; ++device)
      work_.sent[device].tensor = Workspace::kNoTensor;

    // The slices of the devices' lines, first as counts.
    auto& counts = work_.devices_to_run;
    counts.assign(problem_.devices, 0);
    for (std::uint32_t at = 0; at < problem_.ops; ++at) {
      const OpId op{problem_.op_id(at)};
      const auto device = static_cast<std::uint32_t>(schedule.placement[op].index());
      ops_[at] = {0, problem_.pending[at], device};
      lines_.urgency[at] = urgency_key(schedule.priority[op]);
      ++counts[device];
    }
    std::size_t first = 0;
    for (std::uint32_t device = 0; device < problem_.devices; ++device) {
      lines_.devices[device].ready.place(lines_.ready_slots.data() + first);
      lines_.devices[device].future.place(lines_.future_slots.data() + first);
      lines_.devices[device].wake = kNever;
      first += counts[device];
    }
  }

  std::int64_t duration(std::uint32_t op, std::uint32_t device) const {
    return given_ != nullptr ? given_[problem_.op_id(op)].count : problem_.duration_of(op, device);
  }
  [[gnu::always_inline]] void wake_at(std::int64_t time, std::uint32_t what) { lines_.wakes.push({time, what}); }

  // --- ops ---

  void ready(std::uint32_t op, std::int64_t at) {
    const std::uint32_t device = ops_[op].device;
    if (zeros_ && duration(op, device) == 0) {
      record_op(op, at, at);
      last_ = std::max(last_, at);
      work_.instant.push_back(op);
      return;
    }
    PriorityLines::Device& line = lines_.devices[device];
    const std::int64_t free = device_free_[device];
    if (at <= free)
      line.ready.push({lines_.urgency[op], at, problem_.op_id(op)});
    else
      line.future.push({at, op});
    const std::int64_t wake = std::max(at, free);
    if (wake < line.wake) {
      line.wake = wake;
      wake_at(wake, device);
    }
  }
  void satisfy(std::uint32_t op, std::int64_t at) {
    Workspace::OpState& state = ops_[op];
    state.ready = std::max(state.ready, at);
    if (--state.pending == 0) ready(op, state.ready);
  }
  void drain() {
    while (!work_.instant.empty()) {
      const std::uint32_t op = work_.instant.back();
      work_.instant.pop_back();
      finish(op, ops_[op].device, ops_[op].ready);
    }
  }

  void wake_device(std::uint32_t device) {
    PriorityLines::Device& line = lines_.devices[device];
    if (line.wake != now_) return;  // it was to be looked at earlier, and was
    while (!line.future.empty() && line.future.first().time <= now_) {
      const Wake next = line.future.first();
      line.future.pop();
      line.ready.push({lines_.urgency[next.what], next.time, problem_.op_id(next.what)});
    }
    const std::uint32_t op = problem_.position(line.ready.first().task);
    line.ready.pop();
    const std::int64_t end = now_ + duration(op, device);
    device_free_[device] = end + problem_.device_gap[device];
    last_ = std::max(last_, end);
    record_op(op, now_, end);
    if constexpr (kRecord) work_.record.started.push_back(problem_.op_id(op));
    line.wake = 0;  // whatever becomes ready for it now is seen to below
    finish(op, device, end);
    drain();
    line.wake = !line.ready.empty()    ? device_free_[device]
                : !line.future.empty() ? std::max(device_free_[device], line.future.first().time)
                                       : kNever;
    if (line.wake != kNever) wake_at(line.wake, device);
  }

  void finish(std::uint32_t op, std::uint32_t device, std::int64_t end) {
    const std::uint32_t first = problem_.first_output[op], last = problem_.first_output[op + 1];
    // Transfers of one op compete where they share a channel.
    const bool alone = last - first == 1;
    if (alone && pairs_) {
      send_in_pairs(first, device, end);
    } else {
      send_all(first, last, device, end);
    }
    if (problem_.first_before != nullptr)
      for (std::uint32_t i = problem_.first_before[op]; i < problem_.first_before[op + 1]; ++i)
        satisfy(static_cast<std::uint32_t>(problem_.before[i].index()), end);
  }

  /// The only tensor of an op, where each pair of devices has channels of its own: what need not wait leaves no trace.
  void send_in_pairs(std::uint32_t tensor, std::uint32_t device, std::int64_t end) {
    auto& waiting = work_.destinations;
    waiting.clear();
    std::uint32_t slot = problem_.slot(tensor);
    const std::uint32_t last = problem_.first_consumer[tensor + 1];
    for (std::uint32_t edge = problem_.first_consumer[tensor]; edge < last; ++edge) {
      const auto op = static_cast<std::uint32_t>(problem_.consumer[edge].index());
      const std::uint32_t to = ops_[op].device;
      if (to == device) {
        satisfy(op, end);
        continue;
      }
      Workspace::Sent& sent = work_.sent[to];
      if (sent.tensor != tensor) {
        sent.tensor = tensor;
        const DenseProblem::Pair pair = problem_.pair(device, to);
        const std::int64_t time = problem_.transfer_time(tensor, pair);
        const std::uint32_t channel = pair.channel;
        sent.last_edge = kNoEdge;
        if (time == 0 || channel == DenseProblem::kNoChannel) {
          sent.arrival = end + time;
        } else if (channel_free_[channel] <= end && lines_.nobody(channel) && lines_.coming[channel] == 0) {
          sent.arrival = end + time;
          channel_free_[channel] = sent.arrival + problem_.channel_gap[channel];
        } else {
          sent.last_edge = edge;
          work_.next_edge[edge] = kNoEdge;
          waiting.push_back({to, edge, 0});
          continue;
        }
        if constexpr (kRecord) work_.record.transfers[slot] = {end, end, sent.arrival, to};
        ++slot;
      }
      if (sent.last_edge == kNoEdge) {
        satisfy(op, sent.arrival);
      } else if (sent.last_edge != edge) {
        work_.next_edge[sent.last_edge] = edge;
        work_.next_edge[edge] = kNoEdge;
        sent.last_edge = edge;
      }
    }
    if constexpr (kRecord)
      work_.record.transfers_of[problem_.tensor_id(tensor).index()] =
          slot - problem_.slot(tensor) + static_cast<std::uint32_t>(waiting.size());
    for (const auto& transfer : waiting) send(slot++, tensor, device, transfer.device, transfer.first_edge, end, false);
  }

  void send_all(std::uint32_t first, std::uint32_t last, std::uint32_t device, std::int64_t end) {
    const bool alone = last - first == 1;
    for (std::uint32_t tensor = first; tensor < last; ++tensor) {
      find_destinations(problem_, work_, tensor, device, [&](std::uint32_t consumer) { satisfy(consumer, end); });
      if constexpr (kRecord)
        work_.record.transfers_of[problem_.tensor_id(tensor).index()] =
            static_cast<std::uint32_t>(work_.destinations.size());
      const std::uint32_t base = problem_.slot(tensor);
      const bool one = alone && (problem_.links == DenseProblem::Links::pairs || work_.destinations.size() == 1);
      for (std::uint32_t i = 0; i < work_.destinations.size(); ++i)
        send(base + i, tensor, device, work_.destinations[i].device, work_.destinations[i].first_edge, end, one);
    }
  }

  // --- transfers ---

  /// `one`: no other transfer of this moment wants its channel.
  void send(std::uint32_t slot, std::uint32_t tensor, std::uint32_t from, std::uint32_t to, std::uint32_t edge,
            std::int64_t end, bool one) {
    const DenseProblem::Pair pair = problem_.pair(from, to);
    const std::int64_t time = problem_.transfer_time(tensor, pair);
    const std::uint32_t channel = pair.channel;
    if (time == 0 || channel == DenseProblem::kNoChannel) return carry(slot, to, edge, end, end, time);
    if (one && given_ == nullptr && problem_.closed(from, to) && channel_free_[channel] <= end &&
        lines_.nobody(channel) && lines_.coming[channel] == 0) {
      channel_free_[channel] = end + time + problem_.channel_gap[channel];
      return carry(slot, to, edge, end, end, time);
    }
    const DenseProblem::RouteChannels route = problem_.route(from, to);
    work_.sending[slot] = {time, edge, to, route};
    // Nobody starts on a channel before it is free: who becomes ready until then may as well stand in line now.
    bool all_busy = true;
    for (const std::uint32_t c : problem_.channels_of(route)) all_busy = all_busy && channel_free_[c] >= end;
    if (all_busy) return enter(slot, end);
    for (const std::uint32_t c : problem_.channels_of(route)) ++lines_.coming[c];
    wake_at(end, problem_.devices + problem_.channels + slot);
  }

  void enter(std::uint32_t slot, std::int64_t at) {
    const Workspace::Sending& sending = work_.sending[slot];
    std::uint64_t urgency = ~std::uint64_t{0};
    for (std::uint32_t edge = sending.first_edge; edge != kNoEdge; edge = work_.next_edge[edge])
      urgency = std::min(urgency, lines_.urgency[problem_.consumer[edge].index()]);
    for (const std::uint32_t channel : problem_.channels_of(sending.route)) {
      lines_.enter(channel, {urgency, at, slot});
      if (channel_free_[channel] > now_)
        wake_when_free(channel);
      else
        touch(channel);
    }
  }
  void wake_when_free(std::uint32_t channel) {
    if (lines_.channel_wake[channel] == channel_free_[channel]) return;
    lines_.channel_wake[channel] = channel_free_[channel];
    wake_at(channel_free_[channel], problem_.devices + channel);
  }
  void line_up(std::uint32_t slot) {
    for (const std::uint32_t c : problem_.channels_of(work_.sending[slot].route)) --lines_.coming[c];
    enter(slot, now_);
  }
  void wake_channel(std::uint32_t channel) { touch(channel); }
  void touch(std::uint32_t channel) {
    if (lines_.touched_flag[channel] != 0) return;
    lines_.touched_flag[channel] = 1;
    lines_.touched.push_back(channel);
  }

  void look_at_channels() {
    for (std::size_t i = 0; i < lines_.touched.size(); ++i) {
      const std::uint32_t channel = lines_.touched[i];
      lines_.touched_flag[channel] = 0;
      look_at(channel);
    }
    lines_.touched.clear();
    drain();
  }
  void look_at(std::uint32_t channel) {
    if (lines_.nobody(channel) || channel_free_[channel] > now_) return;
    const Waiting first = lines_.first(channel);
    const Workspace::Sending sending = work_.sending[first.task];
    const auto channels = problem_.channels_of(sending.route);
    for (const std::uint32_t other : channels) {
      if (channel_free_[other] > now_ || lines_.first(other).task != first.task) return;
    }
    const std::int64_t time = sending.time;
    for (const std::uint32_t other : channels) {
      lines_.leave(other);
      channel_free_[other] = now_ + time + problem_.channel_gap[other];
      if (!lines_.nobody(other)) wake_when_free(other);
    }
    carry(first.task, sending.to, sending.first_edge, first.ready, now_, time);
  }

  void carry(std::uint32_t slot, std::uint32_t to, std::uint32_t edge, std::int64_t ready, std::int64_t start,
             std::int64_t time) {
    if constexpr (kRecord) work_.record.transfers[slot] = {ready, start, start + time, to};
    for (; edge != kNoEdge; edge = work_.next_edge[edge])
      satisfy(static_cast<std::uint32_t>(problem_.consumer[edge].index()), start + time);
  }
  void record_op(std::uint32_t op, std::int64_t start, std::int64_t end) {
    if constexpr (kRecord) work_.record.ops[OpId{problem_.op_id(op)}] = {Nanoseconds{start}, Nanoseconds{end}};
  }

  const DenseProblem& problem_;
  Workspace& work_;
  PriorityLines& lines_;
  Workspace::OpState* const ops_;
  std::int64_t* const device_free_;
  std::int64_t* const channel_free_;
  const Nanoseconds* const given_;
  const bool zeros_;  // some op may take no time
  const bool pairs_;  // DenseProblem::Links::pairs may be relied on
  std::int64_t now_ = 0, last_ = 0;
};

}  // namespace

std::int64_t run_priorities(const DenseProblem& problem, const Schedule& schedule, const Nanoseconds* durations,
                            bool record, Workspace& workspace) {
  assert(schedule.policy == Policy::priority && !schedule.priority.empty());
  assert(!problem.problem.cluster().has_fair_channels());
  workspace.prepare_sending(problem);
  if (!record) return PriorityWalk<false>{problem, schedule, durations, workspace}.run();
  workspace.prepare_record(problem);
  workspace.record.in_order = true;
  return PriorityWalk<true>{problem, schedule, durations, workspace}.run();
}

}  // namespace trainyard::detail
