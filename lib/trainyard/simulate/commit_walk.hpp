#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/destinations.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

/// Op times by op id in place of the problem's, where there are any.
struct GivenDurations {
  const Nanoseconds* by_op = nullptr;
  bool closed_links = true;  // DenseProblem::closed may be relied on
};

// For commit_engine.cpp alone: where nobody else can call them, the compiler may inline the functions of a run into
// one.
namespace {

/// One run of run_commits(). Everything that is read in the loops is a local copy of a pointer; everything is inlined
/// into the loops.
template <class Queue, DenseProblem::Links kLinks, bool kRecord>
class CommitWalk {
 public:
  CommitWalk(const DenseProblem& problem, const Schedule& schedule, const GivenDurations& durations,
             Workspace& workspace, Queue& queue)
      : problem_(problem),
        work_(workspace),
        queue_(queue),
        schedule_(schedule),
        ops_(workspace.ops.data()),
        device_free_(workspace.device_free.data()),
        channel_free_(workspace.channel_free.data()),
        sent_(workspace.sent.data()),
        first_output_(problem.first_output),
        first_consumer_(problem.first_consumer),
        consumer_(problem.consumer),
        duration_(durations.by_op == nullptr ? problem.duration : durations.by_op),
        columns_(durations.by_op == nullptr ? problem.columns : 0),
        by_id_(durations.by_op != nullptr && problem.renumbered),
        closed_links_(durations.closed_links),
        all_wait_(problem.all_wait),
        zeros_(problem.zero_durations || !durations.closed_links) {}

  std::int64_t fifo() {
    start();
    queue_.clear();
    for (const std::uint32_t source : problem_.sources) ready<false>(source, 0);
    drain<false>();
    std::uint32_t task = 0;
    std::int64_t at = 0;
    while (queue_.take(task, at)) {
      if (kLinks == Links::queued && task >= problem_.ops) {
        send_waiting<false>(problem_.position(task - problem_.ops), at);
      } else {
        const std::uint32_t op = problem_.position(task);
        run<false>(op, ops_[op].device, at);
      }
      drain<false>();
    }
    return over();
  }

  std::int64_t strict() {
    start();
    if constexpr (kLinks == Links::queued) queue_.clear();
    auto& to_run = work_.devices_to_run;
    to_run.clear();
    for (std::uint32_t device = problem_.devices; device-- > 0;) {
      const auto& order = schedule_.order[DeviceId{device}];
      work_.next_in_order[device] = order.data();
      work_.end_of_order[device] = order.data() + order.size();
      skip_instant(device);
      to_run.push_back(device);
      work_.to_run[device] = 1;
    }
    if constexpr (kLinks == Links::queued) {
      for (const std::uint32_t source : problem_.sources)
        if (takes_no_time(source)) ready<true>(source, 0);
      drain<true>();
    }
    for (;;) {
      while (!to_run.empty()) {
        const std::uint32_t device = to_run.back();
        to_run.pop_back();
        run_in_order(device);
      }
      std::uint32_t task = 0;
      std::int64_t at = 0;
      if (kLinks != Links::queued || !queue_.take(task, at)) break;
      send_waiting<true>(problem_.position(task - problem_.ops), at);
      drain<true>();
    }
    return over();
  }

 private:
  using Links = DenseProblem::Links;

  std::int64_t over() {
    if constexpr (kRecord) {
      Workspace::Record& record = work_.record;
      record.started.resize(static_cast<std::size_t>(started_ - record.started.data()));
      record.in_order = true;
    }
    return last_;
  }
  void start() {
    if constexpr (kRecord) {
      work_.record.started.resize(problem_.ops);
      started_ = work_.record.started.data();
    }
    const DeviceId* const placement = schedule_.placement.values().data();
    for (std::uint32_t at = 0; at < problem_.ops; ++at)
      ops_[at] = {0, problem_.pending[at], static_cast<std::uint32_t>(placement[problem_.op_id(at)].index())};
    std::fill_n(device_free_, problem_.devices, 0);
    std::fill_n(channel_free_, problem_.channels, 0);
    for (std::uint32_t device = 0; device < problem_.devices; ++device) sent_[device].tensor = Workspace::kNoTensor;
    if constexpr (kLinks == Links::queued) work_.instant.clear();
  }

  [[gnu::always_inline]] std::int64_t duration(std::uint32_t op, std::uint32_t device) const {
    if (columns_ == 0) return duration_[by_id_ ? problem_.op_at[op] : op].count;  // given per op
    return duration_[op * columns_ + problem_.column[device]].count;
  }
  bool takes_no_time(std::uint32_t op) const { return duration(op, ops_[op].device) == 0; }

  // --- what becomes ready ---

  template <bool kStrict>
  [[gnu::always_inline]] void ready(std::uint32_t op, std::int64_t at) {
    if (kLinks == Links::queued && zeros_ && takes_no_time(op)) {
      record_op(op, at, at);
      last_ = std::max(last_, at);
      work_.instant.push_back(op);
    } else if constexpr (!kStrict) {
      queue_.insert(problem_.op_id(op), at);
    } else {
      const std::uint32_t device = ops_[op].device;
      if (work_.to_run[device] != 0) return;
      if (work_.next_in_order[device]->index() != problem_.op_id(op)) return;
      work_.to_run[device] = 1;
      work_.devices_to_run.push_back(device);
    }
  }

  template <bool kStrict>
  [[gnu::always_inline]] void satisfy(std::uint32_t op, std::int64_t at) {
    Workspace::OpState& state = ops_[op];
    const std::int64_t known = std::max(state.ready, at);
    state.ready = known;
    if (--state.pending == 0) ready<kStrict>(op, known);
  }

  /// Ends the ops of zero duration that became ready, and those that this makes ready; a list and not a recursion, for
  /// chains of any length.
  template <bool kStrict>
  [[gnu::always_inline]] void drain() {
    if (kLinks == Links::queued && zeros_) drain_instant<kStrict>();
  }
  template <bool kStrict>
  void drain_instant() {
    while (!work_.instant.empty()) {
      const std::uint32_t op = work_.instant.back();
      work_.instant.pop_back();
      finish<kStrict>(op, ops_[op].device, ops_[op].ready);
    }
  }

  // --- ops ---

  template <bool kStrict>
  [[gnu::always_inline]] void run(std::uint32_t op, std::uint32_t device, std::int64_t at) {
    const std::int64_t start = std::max(device_free_[device], at);
    const std::int64_t end = start + duration(op, device);
    device_free_[device] = end + problem_.device_gap[device];
    last_ = std::max(last_, end);
    record_op(op, start, end);
    if constexpr (kRecord) *started_++ = problem_.op_id(op);
    finish<kStrict>(op, device, end);
  }

  void skip_instant(std::uint32_t device) {
    if constexpr (kLinks == Links::queued) {
      const OpId*& next = work_.next_in_order[device];
      while (next != work_.end_of_order[device] && takes_no_time(problem_.position(next->index()))) ++next;
    }
  }
  void run_in_order(std::uint32_t device) {
    const OpId*& next = work_.next_in_order[device];
    const OpId* const end = work_.end_of_order[device];
    while (next != end) {
      const std::uint32_t op = problem_.position(next->index());
      if (ops_[op].pending != 0) break;
      ++next;
      skip_instant(device);
      run<true>(op, device, ops_[op].ready);
      drain<true>();
    }
    work_.to_run[device] = 0;
    // While it ran, what became ready for it was left to the loop above.
    if (next == end) work_.next_in_order[device] = &kNoOp;
  }

  template <bool kStrict>
  [[gnu::always_inline]] void finish(std::uint32_t op, std::uint32_t device, std::int64_t end) {
    if constexpr (kLinks == Links::queued) {
      send_queued<kStrict>(op, device, end);
    } else {
      const std::uint32_t last_output = first_output_[op + 1];
      for (std::uint32_t tensor = first_output_[op]; tensor < last_output; ++tensor)
        send_closed<kStrict>(tensor, device, end);
    }
    if (problem_.first_before != nullptr) {
      const std::uint32_t last = problem_.first_before[op + 1];
      for (std::uint32_t i = problem_.first_before[op]; i < last; ++i)
        satisfy<kStrict>(static_cast<std::uint32_t>(problem_.before[i].index()), end);
    }
  }

  // --- transfers, in closed form ---

  /// When the tensor is at `to`, having taken its turn on the channel.
  [[gnu::always_inline]] std::int64_t arrive(std::uint32_t tensor, std::uint32_t from, std::uint32_t to,
                                             std::int64_t ready, std::uint32_t slot) {
    const DenseProblem::Pair pair = problem_.pair(from, to);
    const std::int64_t time = problem_.transfer_time(tensor, pair);
    std::int64_t start = ready;
    if (time > 0 && pair.channel != DenseProblem::kNoChannel) {
      std::int64_t& free = channel_free_[pair.channel];
      start = std::max(ready, free);
      free = start + time + problem_.channel_gap[pair.channel];
    }
    record_transfer(slot, to, ready, start, start + time);
    return start + time;
  }

  template <bool kStrict>
  [[gnu::always_inline]] void send_closed(std::uint32_t tensor, std::uint32_t device, std::int64_t end) {
    const std::uint32_t first = first_consumer_[tensor], last = first_consumer_[tensor + 1];
    sent_[device].tensor = tensor;
    sent_[device].arrival = end;
    const std::uint32_t base = kRecord ? problem_.slot(tensor) : 0;
    std::uint32_t transfers = 0;
    // On an egress the transfers of one tensor go by ascending destination.
    if (kLinks == Links::egresses && last - first > 1)
      transfers = send_ascending(tensor, device, end, first, last, base);
    for (std::uint32_t edge = first; edge < last; ++edge) {
      const auto op = static_cast<std::uint32_t>(consumer_[edge].index());
      Workspace::OpState& state = ops_[op];
      Workspace::Sent& sent = sent_[state.device];
      if (sent.tensor != tensor) {
        sent.tensor = tensor;
        sent.arrival = arrive(tensor, device, state.device, end, base + transfers++);
      }
      const std::int64_t known = std::max(state.ready, sent.arrival);
      state.ready = known;
      if (--state.pending == 0) ready<kStrict>(op, known);
    }
    record_count(tensor, transfers);
  }

  std::uint32_t send_ascending(std::uint32_t tensor, std::uint32_t device, std::int64_t end, std::uint32_t first,
                               std::uint32_t last, std::uint32_t base) {
    auto& destinations = work_.destinations;
    destinations.clear();
    for (std::uint32_t edge = first; edge < last; ++edge) {
      const std::uint32_t to = ops_[consumer_[edge].index()].device;
      if (sent_[to].tensor == tensor) continue;
      sent_[to].tensor = tensor;
      destinations.push_back({to, 0, 0});
    }
    sort_destinations(work_);
    std::uint32_t transfers = 0;
    for (const auto& destination : destinations)
      sent_[destination.device].arrival = arrive(tensor, device, destination.device, end, base + transfers++);
    return transfers;
  }

  // --- transfers that may enter the queue ---

  /// Whether the transfer waits for its turn in the queue: the others' arrival is known with their producer's end.
  [[gnu::always_inline]] bool waits(std::uint32_t tensor, std::uint32_t from, std::uint32_t to) const {
    if (all_wait_) return true;
    if (closed_links_ && problem_.closed(from, to)) return false;
    const DenseProblem::Pair pair = problem_.pair(from, to);
    return pair.channel != DenseProblem::kNoChannel && problem_.transfer_time(tensor, pair) != 0;
  }

  /// The producer has ended. Those of its transfers that wait are one entry of the queue: their keys follow each other.
  template <bool kStrict>
  [[gnu::always_inline]] void send_queued(std::uint32_t op, std::uint32_t device, std::int64_t end) {
    const std::uint32_t last_output = first_output_[op + 1];
    bool later = false;
    for (std::uint32_t tensor = first_output_[op]; tensor < last_output; ++tensor) {
      record_count(tensor, 0);
      const std::uint32_t last = first_consumer_[tensor + 1];
      bool now = false;
      for (std::uint32_t edge = first_consumer_[tensor]; edge < last; ++edge) {
        const auto consumer = static_cast<std::uint32_t>(consumer_[edge].index());
        const std::uint32_t to = ops_[consumer].device;
        if (to == device)
          satisfy<kStrict>(consumer, end);
        else if (waits(tensor, device, to))
          later = true;
        else
          now = true;
      }
      if (now) send_some<kStrict, false>(tensor, device, end);
    }
    if (later) queue_.insert(problem_.ops + problem_.op_id(op), end);
  }

  template <bool kStrict>
  [[gnu::always_inline]] void send_waiting(std::uint32_t op, std::int64_t at) {
    const std::uint32_t last_output = first_output_[op + 1];
    for (std::uint32_t tensor = first_output_[op]; tensor < last_output; ++tensor)
      send_some<kStrict, true>(tensor, ops_[op].device, at);
  }

  /// The transfers of a tensor that wait, or those that do not, by ascending destination.
  template <bool kStrict, bool kWaiting>
  [[gnu::always_inline]] void send_some(std::uint32_t tensor, std::uint32_t from, std::int64_t ready) {
    const std::uint32_t first = first_consumer_[tensor], last = first_consumer_[tensor + 1];
    std::uint32_t* const receivers = work_.receivers.data();
    std::uint32_t count = 0;
    if (kWaiting && !all_wait_)  // where those are that did not wait
      for (std::uint32_t edge = first; edge < last; ++edge)
        sent_[ops_[consumer_[edge].index()].device].tensor = Workspace::kNoTensor;
    for (std::uint32_t edge = first; edge < last; ++edge) {
      const std::uint32_t to = ops_[consumer_[edge].index()].device;
      if (to == from || sent_[to].tensor == tensor || waits(tensor, from, to) != kWaiting) continue;
      sent_[to].tensor = tensor;
      receivers[count++] = to;
    }
    if (count == 0) return;
    if (count > 1) std::sort(receivers, receivers + count);
    std::uint32_t broadcast = DenseProblem::kNoChannel;  // who stands for all that an egress serves at once
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t to = receivers[i];
      if (problem_.broadcasts && problem_.broadcast(from, to)) {
        if (broadcast != DenseProblem::kNoChannel) {
          sent_[to].arrival = sent_[broadcast].arrival;
          continue;
        }
        broadcast = to;
      }
      const std::uint32_t slot = next_slot(tensor);
      sent_[to].arrival = kWaiting ? hold_route(tensor, from, to, ready, slot) : arrive(tensor, from, to, ready, slot);
    }
    for (std::uint32_t edge = first; edge < last; ++edge) {
      const auto consumer = static_cast<std::uint32_t>(consumer_[edge].index());
      const std::uint32_t to = ops_[consumer].device;
      if (to != from && sent_[to].tensor == tensor) satisfy<kStrict>(consumer, sent_[to].arrival);
    }
  }

  /// When the tensor is at `to`, having held all channels of its route at once.
  [[gnu::always_inline]] std::int64_t hold_route(std::uint32_t tensor, std::uint32_t from, std::uint32_t to,
                                                 std::int64_t ready, std::uint32_t slot) {
    const std::int64_t time = problem_.transfer_time(tensor, from, to);
    std::int64_t start = ready;
    if (problem_.short_routes) {
      // As many steps for every route: nothing to guess.
      const DenseProblem::ShortRoute route = problem_.short_route(from, to);
      for (const std::uint32_t channel : route.channels) start = std::max(start, channel_free_[channel]);
      const std::int64_t end = start + time;
      for (const std::uint32_t channel : route.channels) channel_free_[channel] = end + problem_.channel_gap[channel];
    } else {
      const auto channels = problem_.channels_of(problem_.route(from, to));
      for (const std::uint32_t channel : channels) start = std::max(start, channel_free_[channel]);
      const std::int64_t end = start + time;
      for (const std::uint32_t channel : channels) channel_free_[channel] = end + problem_.channel_gap[channel];
    }
    record_transfer(slot, to, ready, start, start + time);
    return start + time;
  }

  // --- the record ---

  [[gnu::always_inline]] void record_op(std::uint32_t op, std::int64_t start, std::int64_t end) {
    if constexpr (kRecord) work_.record.ops[OpId{problem_.op_id(op)}] = {Nanoseconds{start}, Nanoseconds{end}};
  }
  [[gnu::always_inline]] void record_transfer(std::uint32_t slot, std::uint32_t to, std::int64_t ready,
                                              std::int64_t start, std::int64_t end) {
    if constexpr (kRecord) work_.record.transfers[slot] = {ready, start, end, to};
  }
  [[gnu::always_inline]] void record_count(std::uint32_t tensor, std::uint32_t transfers) {
    if constexpr (kRecord) work_.record.transfers_of[problem_.tensor_id(tensor).index()] = transfers;
  }
  [[gnu::always_inline]] std::uint32_t next_slot(std::uint32_t tensor) {
    if constexpr (kRecord)
      return problem_.slot(tensor) + work_.record.transfers_of[problem_.tensor_id(tensor).index()]++;
    return 0;
  }

  static constexpr OpId kNoOp = OpId::none();

  const DenseProblem& problem_;
  Workspace& work_;
  Queue& queue_;
  const Schedule& schedule_;
  Workspace::OpState* const ops_;
  std::int64_t* const device_free_;
  std::int64_t* const channel_free_;
  Workspace::Sent* const sent_;
  const std::uint32_t* const first_output_;
  const std::uint32_t* const first_consumer_;
  const OpId* const consumer_;
  const Nanoseconds* const duration_;
  const std::size_t columns_;  // 0: duration_ is by op alone
  const bool by_id_;
  const bool closed_links_;
  const bool all_wait_;
  const bool zeros_;  // some op may take no time
  std::uint32_t* started_ = nullptr;
  std::int64_t last_ = 0;
};

}  // namespace
}  // namespace trainyard::detail
