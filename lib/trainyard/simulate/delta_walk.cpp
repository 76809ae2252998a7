#include "trainyard/simulate/delta_walk.hpp"

#include <algorithm>
#include <type_traits>

#include "trainyard/simulate/delta_restart.hpp"
#include "trainyard/simulate/delta_snapshot.hpp"
#include "trainyard/simulate/destinations.hpp"

namespace trainyard::detail {
namespace {

using Links = DenseProblem::Links;

template <class Queue, Links kLinks, bool kRecord>
class Walk {
 public:
  Walk(const DeltaProblem& problem, DeltaState& state, Queue& queue, std::int64_t limit)
      : all_(problem),
        problem_(problem.dense),
        state_(state),
        work_(state.work),
        queue_(queue),
        limit_(limit),
        limited_(limit < kLongestTime.count),
        strict_(state.strict),
        ops_(state.work.ops.data()),
        reset_(state.reset.data()),
        device_free_(state.work.device_free.data()),
        channel_free_(state.work.channel_free.data()),
        sent_(state.work.sent.data()),
        committed_(state.committed.data()),
        first_output_(problem_.first_output),
        first_consumer_(problem_.first_consumer),
        consumer_(problem_.consumer),
        duration_(problem_.duration),
        columns_(problem_.columns) {}

  DeltaEnd run() {
    if (!restore()) return give_up();
    std::uint32_t task = 0;
    std::int64_t at = 0;
    while (queue_.take(task, at)) {
      if (count_ >= next_count_) [[unlikely]] {
        if (cross(task, at)) return met();
        if (above_) return give_up();
      }
      if (kLinks == Links::queued && task >= problem_.ops)
        commit_transfer(task - problem_.ops, at);
      else
        run_op(problem_.position(task), at);
      if constexpr (kLinks == Links::queued) drain();
      if (above_) [[unlikely]]
        return give_up();
    }
    state_.meets = state_.epochs();
    state_.count = count_;
    if (count_ < problem_.ops) {
      clean_up(all_, state_, count_);
      return {DeltaEnd::Kind::deadlock, 0};
    }
    if constexpr (kRecord)
      for (; next_ < state_.epochs(); ++next_) record_snapshot(problem_.ops, latest_);
    return {latest_ > limit_ ? DeltaEnd::Kind::above : DeltaEnd::Kind::complete, latest_};
  }

 private:
  // --- where runs part and meet ---

  bool restore() {
    const Change& change = state_.change;
    const std::uint32_t restart = change.restart;
    const Snapshot& from = state_.snapshots[restart];
    next_ = restart + 1;
    next_count_ = next_ < state_.epochs() ? next_ * state_.spacing : kNone;
    head_ = from.head;
    count_ = from.committed;
    latest_ = state_.latest_before[restart];
    epoch_ = restart;
    queue_.clear();
    for (std::uint32_t device = 0; device < problem_.devices; ++device) {
      device_free_[device] = restart == 0 ? 0 : head_ + from.device_free[device];
      sent_[device].tensor = kNone;
    }
    std::fill_n(channel_free_, problem_.channels, 0);
    for (const Snapshot::Busy& busy : from.channels) channel_free_[busy.channel] = head_ + busy.free;
    for (const Snapshot::Touched& touched : from.frontier) {
      ops_[touched.op].pending = touched.pending;
      ops_[touched.op].ready = head_ + touched.ready;
    }
    if constexpr (kLinks == Links::queued) work_.instant.clear();
    if constexpr (kRecord) {
      state_.new_epoch_latest.assign(state_.epochs(), 0);
      state_.frontier.clear();
      state_.flights.clear();
      if (strict_ && restart == 0) std::ranges::fill(state_.last_on_device, kNone);
      if (strict_ && restart > 0) state_.last_on_device = from.last_on_device;
    }
    if (limited_ || kRecord) state_.work_done = from.work_done;
    if (latest_ > limit_) {
      above_ = true;
      bound_ = latest_;
    }
    if (restart == 0) {
      for (const std::uint32_t source : problem_.sources)
        if (reset_[source] == kNone) {
          if constexpr (kRecord) join(source);
          ops_[source].pending = 0;
          ready(source, 0);
        }
      if constexpr (kLinks == Links::queued) drain();
      return !above_;
    }
    for (const Change::Op& op : change.ops) {
      const bool reached = op.pending != reset_[op.op];
      ops_[op.op].pending = op.pending;
      ops_[op.op].ready = reached ? op.ready : 0;
      if (op.pending == 0) queue_.insert(problem_.op_id(op.op), op.ready);
      if (kRecord && reached) join(op.op);
    }
    for (const Snapshot::Touched& touched : from.frontier) {
      if (state_.changed[touched.op] != 0) continue;
      if (touched.pending == 0) queue_.insert(problem_.op_id(touched.op), ops_[touched.op].ready);
      if constexpr (kRecord) join(touched.op);
    }
    patch_channels(state_, all_, restart,
                   [&](std::uint32_t channel, std::int64_t free) { channel_free_[channel] = free; });
    if constexpr (kLinks == Links::queued) {
      if constexpr (kRecord)
        for (const Snapshot::Flight& flight : from.flights) forget_transfers(flight.tensor);
      for (const Snapshot::Flight& flight : from.flights) send_again(flight);
    }
    return !above_;
  }

  /// A transfer that was in the queue: under which number, and whom it serves, follows from the placement.
  void send_again(const Snapshot::Flight& flight) {
    find_destinations(problem_, work_, flight.tensor, flight.from, [](std::uint32_t) {});
    for (std::uint32_t i = 0; i < work_.destinations.size(); ++i)
      if (work_.destinations[i].device == flight.to)
        enqueue(problem_.slot(flight.tensor) + i, work_.destinations[i].first_edge, flight.tensor, flight.from,
                flight.to, head_ + flight.ready);
    for (std::uint32_t edge = first_consumer_[flight.tensor]; edge < first_consumer_[flight.tensor + 1]; ++edge)
      sent_[ops_[consumer_[edge].index()].device].tensor = kNone;
  }

  /// At a snapshot's number of commits, the task taken being the head. True where the runs meet.
  bool cross(std::uint32_t task, std::int64_t at) {
    last_head_ = at;
    for (; next_ < state_.epochs() && count_ >= next_ * state_.spacing; ++next_) {
      if (next_ >= state_.change.first_match && meets(all_, state_, state_.snapshots[next_], count_, at)) return true;
      if constexpr (kRecord) record_snapshot(task, at);
    }
    next_count_ = next_ < state_.epochs() ? next_ * state_.spacing : kNone;
    if (limited_) bound_work();
    return false;
  }

  DeltaEnd met() {
    const Snapshot& old = state_.snapshots[next_];
    state_.meets = next_;
    state_.count = count_;
    state_.shift = last_head_ - old.head;
    clean_up_from(all_, state_, old);
    const std::int64_t makespan = std::max(latest_, state_.latest_from[next_] + state_.shift);
    return {makespan > limit_ ? DeltaEnd::Kind::above : DeltaEnd::Kind::complete, makespan};
  }

  DeltaEnd give_up() {
    state_.count = count_;
    clean_up(all_, state_, count_);
    return {DeltaEnd::Kind::above, bound_};
  }

  /// No device can do what is left of its work before the limit.
  void bound_work() {
    for (std::uint32_t device = 0; device < problem_.devices; ++device) {
      const std::int64_t left = state_.device_work[device] - state_.work_done[device];
      if (left == 0 || device_free_[device] + left <= limit_) continue;
      above_ = true;
      bound_ = device_free_[device] + left;
    }
  }

  void record_snapshot(std::uint32_t task, std::int64_t head) {
    epoch_ = next_;
    head_ = head;
    take_snapshot(all_, state_, count_, task, head, state_.new_snapshots[next_]);
  }

  // --- the frontier and the flights as lists ---

  void join(std::uint32_t op) {
    state_.frontier_at[op] = static_cast<std::uint32_t>(state_.frontier.size());
    state_.frontier.push_back(op);
  }
  static void remove(std::vector<std::uint32_t>& list, std::vector<std::uint32_t>& place, std::uint32_t which) {
    const std::uint32_t last = list.back();
    list[place[which]] = last;
    place[last] = place[which];
    list.pop_back();
  }

  // --- ops ---

  static std::uint32_t at(OpId position) { return static_cast<std::uint32_t>(position.index()); }
  [[gnu::always_inline]] std::int64_t duration(std::uint32_t op, std::uint32_t device) const {
    return duration_[op * columns_ + problem_.column[device]].count;
  }

  [[gnu::always_inline]] void ready(std::uint32_t op, std::int64_t at) {
    if (kLinks == Links::queued && duration(op, ops_[op].device) == 0)
      work_.instant.push_back(op);
    else
      queue_.insert(problem_.op_id(op), at);
  }

  [[gnu::always_inline]] void satisfy(std::uint32_t op, std::int64_t at) {
    Workspace::OpState& state = ops_[op];
    if constexpr (kRecord)
      if (state.pending == reset_[op]) join(op);
    const std::int64_t known = std::max(state.ready, at);
    state.ready = known;
    if (--state.pending == 0) ready(op, known);
  }

  void drain() {
    while (!work_.instant.empty()) {
      const std::uint32_t op = work_.instant.back();
      work_.instant.pop_back();
      const std::int64_t at = ops_[op].ready;
      commit(op, ops_[op].device, at, at);
      finish(op, ops_[op].device, at);
    }
  }

  [[gnu::always_inline]] void run_op(std::uint32_t op, std::int64_t at) {
    const std::uint32_t device = ops_[op].device;
    const std::int64_t start = std::max(device_free_[device], at);
    const std::int64_t end = start + duration(op, device);
    device_free_[device] = end + problem_.device_gap[device];
    commit(op, device, start, end);
    finish(op, device, end);
    if (strict_) {
      if constexpr (kRecord) state_.last_on_device[device] = op;
      if (const std::uint32_t next = state_.turn_before[op]; next != kNone) satisfy(next, end);
    }
  }

  [[gnu::always_inline]] void commit(std::uint32_t op, std::uint32_t device, std::int64_t start, std::int64_t end) {
    latest_ = std::max(latest_, end);
    ops_[op].ready = 0;
    ops_[op].pending = reset_[op];
    committed_[count_++] = op;
    if (limited_ || kRecord) state_.work_done[device] += end - start;
    if (limited_ && end + all_.tail[op] > limit_) {
      above_ = true;
      bound_ = end + all_.tail[op];
    }
    if constexpr (kRecord) {
      remove(state_.frontier, state_.frontier_at, op);
      state_.new_runs[op] = {start - head_, end - head_, epoch_};
      auto& latest = state_.new_epoch_latest[epoch_];
      latest = std::max(latest, end - head_);
      for (std::uint32_t tensor = first_output_[op]; tensor < first_output_[op + 1]; ++tensor) forget_transfers(tensor);
    }
  }

  [[gnu::always_inline]] void finish(std::uint32_t op, std::uint32_t device, std::int64_t end) {
    const std::uint32_t last_output = first_output_[op + 1];
    for (std::uint32_t tensor = first_output_[op]; tensor < last_output; ++tensor) {
      if constexpr (kLinks == Links::queued)
        send_queued(tensor, device, end);
      else
        send_closed(tensor, device, end);
    }
    if (problem_.first_before != nullptr) {
      const std::uint32_t last = problem_.first_before[op + 1];
      for (std::uint32_t i = problem_.first_before[op]; i < last; ++i) satisfy(at(problem_.before[i]), end);
    }
  }

  // --- transfers ---

  void forget_transfers(std::uint32_t tensor) {
    for (std::uint32_t i = 0; i < first_consumer_[tensor + 1] - first_consumer_[tensor]; ++i)
      state_.new_transfers[problem_.slot(tensor) + i].to = kNone;
  }
  [[gnu::always_inline]] void record_transfer(std::uint32_t slot, std::uint32_t tensor, std::uint32_t to,
                                              std::int64_t start, std::int64_t end) {
    if constexpr (kRecord) state_.new_transfers[slot] = {start - head_, end - head_, epoch_, to, tensor};
  }

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
    record_transfer(slot, tensor, to, start, start + time);
    return start + time;
  }

  [[gnu::always_inline]] void send_closed(std::uint32_t tensor, std::uint32_t device, std::int64_t end) {
    const std::uint32_t first = first_consumer_[tensor], last = first_consumer_[tensor + 1];
    sent_[device].tensor = tensor;
    sent_[device].arrival = end;
    std::uint32_t slot = kRecord ? problem_.slot(tensor) : 0;
    if (kLinks == Links::egresses && last - first > 1) slot += send_ascending(tensor, device, end, first, last, slot);
    for (std::uint32_t edge = first; edge < last; ++edge) {
      const std::uint32_t op = at(consumer_[edge]);
      Workspace::OpState& state = ops_[op];
      Workspace::Sent& sent = sent_[state.device];
      if (sent.tensor != tensor) {
        sent.tensor = tensor;
        sent.arrival = arrive(tensor, device, state.device, end, slot++);
      }
      satisfy(op, sent.arrival);
    }
  }

  std::uint32_t send_ascending(std::uint32_t tensor, std::uint32_t device, std::int64_t end, std::uint32_t first,
                               std::uint32_t last, std::uint32_t slot) {
    auto& destinations = work_.destinations;
    destinations.clear();
    for (std::uint32_t edge = first; edge < last; ++edge) {
      const std::uint32_t to = ops_[consumer_[edge].index()].device;
      if (sent_[to].tensor == tensor) continue;
      sent_[to].tensor = tensor;
      destinations.push_back({to, 0, 0});
    }
    sort_destinations(work_);
    for (std::uint32_t i = 0; i < destinations.size(); ++i)
      sent_[destinations[i].device].arrival = arrive(tensor, device, destinations[i].device, end, slot + i);
    return static_cast<std::uint32_t>(destinations.size());
  }

  void send_queued(std::uint32_t tensor, std::uint32_t device, std::int64_t end) {
    find_destinations(problem_, work_, tensor, device, [&](std::uint32_t op) { satisfy(op, end); });
    const auto& destinations = work_.destinations;
    const std::uint32_t base = problem_.slot(tensor);
    for (std::uint32_t i = 0; i < destinations.size(); ++i) {
      const std::uint32_t to = destinations[i].device, edge = destinations[i].first_edge;
      if (problem_.closed(device, to)) {
        deliver(edge, arrive(tensor, device, to, end, base + i));
        continue;
      }
      const DenseProblem::Pair pair = problem_.pair(device, to);
      const std::int64_t time = problem_.transfer_time(tensor, pair);
      if (time == 0 || pair.channel == DenseProblem::kNoChannel) {
        record_transfer(base + i, tensor, to, end, end + time);
        deliver(edge, end + time);
      } else {
        enqueue(base + i, edge, tensor, device, to, end);
      }
    }
  }

  void enqueue(std::uint32_t slot, std::uint32_t edge, std::uint32_t tensor, std::uint32_t from, std::uint32_t to,
               std::int64_t ready) {
    work_.sending[slot] = {problem_.transfer_time(tensor, from, to), edge, to, problem_.route(from, to)};
    state_.flying[slot] = {tensor, from, ready};
    queue_.insert(problem_.ops + slot, ready);
    if constexpr (kRecord) {
      state_.new_transfers[slot] = {0, 0, kNone, to, tensor};
      state_.flight_at[slot] = static_cast<std::uint32_t>(state_.flights.size());
      state_.flights.push_back(slot);
    }
  }

  void commit_transfer(std::uint32_t slot, std::int64_t at) {
    const Workspace::Sending sending = work_.sending[slot];
    std::int64_t start = at;
    for (const std::uint32_t channel : problem_.channels_of(sending.route))
      start = std::max(start, channel_free_[channel]);
    const std::int64_t end = start + sending.time;
    for (const std::uint32_t channel : problem_.channels_of(sending.route))
      channel_free_[channel] = end + problem_.channel_gap[channel];
    if constexpr (kRecord) {
      remove(state_.flights, state_.flight_at, slot);
      record_transfer(slot, state_.flying[slot].tensor, sending.to, start, end);
    }
    state_.flying[slot].tensor = kNone;
    deliver(sending.first_edge, end);
  }

  [[gnu::always_inline]] void deliver(std::uint32_t edge, std::int64_t time) {
    for (; edge != kNoEdge; edge = work_.next_edge[edge]) satisfy(at(consumer_[edge]), time);
  }

  const DeltaProblem& all_;
  const DenseProblem& problem_;
  DeltaState& state_;
  Workspace& work_;
  Queue& queue_;
  const std::int64_t limit_;
  const bool limited_, strict_;
  Workspace::OpState* const ops_;
  const std::uint32_t* const reset_;
  std::int64_t* const device_free_;
  std::int64_t* const channel_free_;
  Workspace::Sent* const sent_;
  std::uint32_t* const committed_;
  const std::uint32_t* const first_output_;
  const std::uint32_t* const first_consumer_;
  const OpId* const consumer_;
  const Nanoseconds* const duration_;
  const std::size_t columns_;
  std::uint32_t count_ = 0, next_ = 0, next_count_ = 0, epoch_ = 0;
  std::int64_t latest_ = 0, head_ = 0, last_head_ = 0, bound_ = 0;
  bool above_ = false;
};

template <class Queue>
DeltaEnd run_with(const DeltaProblem& problem, DeltaState& state, std::int64_t limit, bool record, Queue& queue) {
  queue.prepare(problem.dense.ops + (problem.links == Links::queued ? problem.dense.edges : 0U),
                problem.dense.mean_gap);
  const auto with = [&](auto links) {
    return record ? Walk<Queue, decltype(links)::value, true>{problem, state, queue, limit}.run()
                  : Walk<Queue, decltype(links)::value, false>{problem, state, queue, limit}.run();
  };
  switch (problem.links) {
    case Links::pairs:
      return with(std::integral_constant<Links, Links::pairs>{});
    case Links::egresses:
      return with(std::integral_constant<Links, Links::egresses>{});
    case Links::queued:
      break;
  }
  return with(std::integral_constant<Links, Links::queued>{});
}

/// From this many devices on the wheel is faster.
constexpr std::uint32_t kSomeDevices = 33;

}  // namespace

DeltaEnd run_delta(const DeltaProblem& problem, DeltaState& state, std::int64_t limit, bool record) {
  const std::size_t tasks = std::size_t{problem.dense.ops} + problem.dense.edges;
  if (problem.dense.devices < kSomeDevices && PackedHeap::fits(tasks, problem.dense.horizon))
    return run_with(problem, state, limit, record, state.work.heap);
  return run_with(problem, state, limit, record, state.work.wheel);
}

}  // namespace trainyard::detail
