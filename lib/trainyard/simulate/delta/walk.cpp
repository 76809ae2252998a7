#include "trainyard/simulate/delta/walk.hpp"

#include <algorithm>
#include <type_traits>

#include "trainyard/simulate/delta/restart.hpp"
#include "trainyard/simulate/delta/snapshot.hpp"
#include "trainyard/simulate/engine/closed_links.hpp"
#include "trainyard/simulate/engine/destinations.hpp"

namespace trainyard::detail {
namespace {

using Links = DenseProblem::Links;

/// Task numbers in the queue: an op by its id; a transfer by the number of ops plus its slot.
template <class Queue, Links kLinks, bool kRecord>
class Walk : public ClosedLinks<Walk<Queue, kLinks, kRecord>, kLinks, kRecord> {
  using Base = ClosedLinks<Walk, kLinks, kRecord>;
  friend Base;

 public:
  Walk(const DeltaProblem& problem, DeltaState& state, Queue& queue, Nanoseconds limit)
      : Base(problem.dense, state.work),
        all_(problem),
        state_(state),
        queue_(queue),
        limit_(limit),
        limited_(limit < kLongestTime) {}

  DeltaEnd run() {
    if (!restore()) return give_up();
    std::uint32_t task = 0;
    Nanoseconds at;
    while (queue_.take(task, at)) {
      if (count_ >= next_count_) [[unlikely]] {
        if (cross(task, at)) return met();
        if (above_) return give_up();
      }
      if (kLinks == Links::queued && task >= problem_.ops)
        commit_transfer(Slot{task - problem_.ops}, at);
      else
        run_op(problem_.position(OpId{task}), at);
      if constexpr (kLinks == Links::queued) drain();
      if (above_) [[unlikely]]
        return give_up();
    }
    state_.meets = state_.epochs();
    state_.count = count_;
    if (count_ < problem_.ops) {
      clean_up(all_, state_, count_);
      return {DeltaEnd::Kind::deadlock, {}};
    }
    if constexpr (kRecord)
      for (; next_ < state_.epochs(); ++next_) record_snapshot(problem_.ops, latest_);
    return {latest_ > limit_ ? DeltaEnd::Kind::above : DeltaEnd::Kind::complete, latest_};
  }

 private:
  using Base::problem_, Base::graph_, Base::work_, Base::ops_, Base::device_free_, Base::channel_free_, Base::sent_;

  // --- start from a snapshot, and meeting the current run ---

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
    work_.clear();
    if (restart > 0)
      for (const DeviceId device : from.device_free.ids()) device_free_[device] = head_ + from.device_free[device];
    for (const Snapshot::Busy& busy : from.channels) channel_free_[busy.channel] = head_ + busy.free;
    for (const Snapshot::Touched& touched : from.frontier) {
      ops_[touched.op].pending = touched.pending;
      ops_[touched.op].ready = head_ + touched.ready;
    }
    if constexpr (kRecord) {
      state_.new_epoch_latest.assign(state_.epochs(), {});
      state_.frontier.clear();
      state_.flights.clear();
      if (strict_ && restart == 0) std::ranges::fill(state_.last_on_device, Position::none());
      if (strict_ && restart > 0) state_.last_on_device = from.last_on_device;
    }
    if (limited_ || kRecord) state_.work_done = from.work_done;
    if (latest_ > limit_) {
      above_ = true;
      bound_ = latest_;
    }
    if (restart == 0) {
      for (const Position source : problem_.sources)
        if (reset_[source] == kNone) {
          if constexpr (kRecord) join(source);
          ops_[source].pending = 0;
          ready(source, Nanoseconds{0});
        }
      if constexpr (kLinks == Links::queued) drain();
      return !above_;
    }
    for (const Change::Op& op : change.ops) {
      const bool reached = op.pending != reset_[op.op];
      ops_[op.op].pending = op.pending;
      ops_[op.op].ready = reached ? op.ready : Nanoseconds{0};
      if (op.pending == 0) queue_.insert(task_of(op.op), op.ready);
      if (kRecord && reached) join(op.op);
    }
    for (const Snapshot::Touched& touched : from.frontier) {
      if (state_.changed[touched.op] != 0) continue;
      if (touched.pending == 0) queue_.insert(task_of(touched.op), ops_[touched.op].ready);
      if constexpr (kRecord) join(touched.op);
    }
    patch_channels(state_, all_, restart, [&](ChannelId channel, Nanoseconds free) { channel_free_[channel] = free; });
    if constexpr (kLinks == Links::queued) {
      if constexpr (kRecord)
        for (const Snapshot::Flight& flight : from.flights) forget_transfers(flight.tensor);
      for (const Snapshot::Flight& flight : from.flights) send_again(flight);
    }
    return !above_;
  }

  /// Restores a transfer that was in the queue. Its slot and its consumers follow from the placement.
  void send_again(const Snapshot::Flight& flight) {
    find_destinations(problem_, work_, flight.tensor, flight.from, [](Position) {});
    const auto& destinations = work_.destinations;
    for (std::size_t i = 0; i < destinations.size(); ++i)
      if (destinations[i].device == flight.to)
        enqueue(problem_.slot(flight.tensor, i), destinations[i].first_edge, flight.tensor, flight.from, flight.to,
                head_ + flight.ready);
    for (const Edge edge : graph_.edges(flight.tensor))
      sent_[ops_[graph_.consumer(edge)].device].tensor = TensorPosition::none();
  }

  /// Called at the number of commits of a snapshot, with the next task as head. Returns whether the runs meet.
  bool cross(std::uint32_t task, Nanoseconds at) {
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
    const Nanoseconds makespan = std::max(latest_, state_.latest_from[next_] + state_.shift);
    return {makespan > limit_ ? DeltaEnd::Kind::above : DeltaEnd::Kind::complete, makespan};
  }

  DeltaEnd give_up() {
    state_.count = count_;
    clean_up(all_, state_, count_);
    return {DeltaEnd::Kind::above, bound_};
  }

  /// Checks whether each device can finish its remaining work within the limit.
  void bound_work() {
    for (const DeviceId device : state_.device_work.ids()) {
      const Nanoseconds left = state_.device_work[device] - state_.work_done[device];
      if (left == Nanoseconds{0} || device_free_[device] + left <= limit_) continue;
      above_ = true;
      bound_ = device_free_[device] + left;
    }
  }

  void record_snapshot(std::uint32_t task, Nanoseconds head) {
    epoch_ = next_;
    head_ = head;
    take_snapshot(all_, state_, count_, task, head, state_.new_snapshots[next_]);
  }

  // --- the frontier and the flights as lists ---

  void join(Position op) { add(state_.frontier, state_.frontier_at, op); }
  template <class Entry>
  static void add(std::vector<Entry>& list, IdMap<Entry, std::uint32_t>& place, Entry entry) {
    place[entry] = static_cast<std::uint32_t>(list.size());
    list.push_back(entry);
  }
  template <class Entry>
  static void remove(std::vector<Entry>& list, IdMap<Entry, std::uint32_t>& place, Entry entry) {
    const Entry last = list.back();
    list[place[entry]] = last;
    place[last] = place[entry];
    list.pop_back();
  }

  // --- ops ---

  std::uint32_t task_of(Position op) const { return static_cast<std::uint32_t>(problem_.op_id(op).index()); }
  [[gnu::always_inline]] Nanoseconds duration(Position op, DeviceId device) const {
    return duration_[op.index() * columns_ + problem_.column[device]];
  }

  [[gnu::always_inline]] void ready(Position op, Nanoseconds at) {
    if (kLinks == Links::queued && duration(op, ops_[op].device) == Nanoseconds{0})
      work_.instant.push_back(op);
    else
      queue_.insert(task_of(op), at);
  }

  [[gnu::always_inline]] void satisfy(Position op, Nanoseconds at) {
    WalkState::Op& state = ops_[op];
    if constexpr (kRecord)
      if (state.pending == reset_[op]) join(op);
    const Nanoseconds known = std::max(state.ready, at);
    state.ready = known;
    if (--state.pending == 0) ready(op, known);
  }

  void drain() {
    while (!work_.instant.empty()) {
      const Position op = work_.instant.back();
      work_.instant.pop_back();
      const Nanoseconds at = ops_[op].ready;
      commit(op, ops_[op].device, at, at);
      finish(op, ops_[op].device, at);
    }
  }

  [[gnu::always_inline]] void run_op(Position op, Nanoseconds at) {
    const DeviceId device = ops_[op].device;
    const Nanoseconds start = std::max(device_free_[device], at);
    const Nanoseconds end = start + duration(op, device);
    device_free_[device] = end + problem_.device_gap[device];
    commit(op, device, start, end);
    finish(op, device, end);
    if (strict_) {
      if constexpr (kRecord) state_.last_on_device[device] = op;
      if (const Position next = state_.turn_before[op]; !next.is_none()) satisfy(next, end);
    }
  }

  [[gnu::always_inline]] void commit(Position op, DeviceId device, Nanoseconds start, Nanoseconds end) {
    latest_ = std::max(latest_, end);
    ops_[op].ready = Nanoseconds{0};
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
      for (const TensorPosition tensor : graph_.outputs(op)) forget_transfers(tensor);
    }
  }

  [[gnu::always_inline]] void finish(Position op, DeviceId device, Nanoseconds end) {
    for (const TensorPosition tensor : graph_.outputs(op)) {
      if constexpr (kLinks == Links::queued)
        send_queued(tensor, device, end);
      else
        Base::send_closed(tensor, device, end);
    }
    graph_.each_before(op, [&](Position later) { satisfy(later, end); });
  }

  // --- transfers ---

  void forget_transfers(TensorPosition tensor) {
    for (const Slot slot : problem_.slots(tensor)) state_.new_transfers[slot].to = DeviceId::none();
  }
  [[gnu::always_inline]] void record_transfer(Slot slot, TensorPosition tensor, DeviceId to, Nanoseconds /*ready*/,
                                              Nanoseconds start, Nanoseconds end) {
    if constexpr (kRecord) state_.new_transfers[slot] = {start - head_, end - head_, epoch_, to, tensor};
  }

  void send_queued(TensorPosition tensor, DeviceId device, Nanoseconds end) {
    find_destinations(problem_, work_, tensor, device, [&](Position op) { satisfy(op, end); });
    const auto& destinations = work_.destinations;
    for (std::size_t i = 0; i < destinations.size(); ++i) {
      const DeviceId to = destinations[i].device;
      const Edge edge = destinations[i].first_edge;
      const Slot slot = problem_.slot(tensor, i);
      const DenseProblem::Pair pair = problem_.pair(device, to);
      const Nanoseconds time = problem_.transfer_time(tensor, pair);
      if (problem_.closed(device, to) || time == Nanoseconds{0} || pair.channel.is_none())
        deliver(edge, Base::arrive(tensor, device, to, end, slot));
      else
        enqueue(slot, edge, tensor, device, to, end);
    }
  }

  void enqueue(Slot slot, Edge edge, TensorPosition tensor, DeviceId from, DeviceId to, Nanoseconds ready) {
    work_.sending[slot] = {problem_.transfer_time(tensor, from, to), edge, to, problem_.route(from, to)};
    state_.flying[slot] = {tensor, from, ready};
    queue_.insert(problem_.ops + static_cast<std::uint32_t>(slot.index()), ready);
    if constexpr (kRecord) {
      state_.new_transfers[slot] = {{}, {}, kNone, to, tensor};
      add(state_.flights, state_.flight_at, slot);
    }
  }

  void commit_transfer(Slot slot, Nanoseconds at) {
    const WalkState::Sending sending = work_.sending[slot];
    Nanoseconds start = at;
    for (const ChannelId channel : problem_.channels_of(sending.route)) start = std::max(start, channel_free_[channel]);
    const Nanoseconds end = start + sending.time;
    for (const ChannelId channel : problem_.channels_of(sending.route))
      channel_free_[channel] = end + problem_.channel_gap[channel];
    if constexpr (kRecord) {
      remove(state_.flights, state_.flight_at, slot);
      record_transfer(slot, state_.flying[slot].tensor, sending.to, at, start, end);
    }
    state_.flying[slot].tensor = TensorPosition::none();
    deliver(sending.first_edge, end);
  }

  [[gnu::always_inline]] void deliver(Edge edge, Nanoseconds time) {
    for (; !edge.is_none(); edge = work_.next_edge[edge]) satisfy(graph_.consumer(edge), time);
  }

  const DeltaProblem& all_;
  DeltaState& state_;
  Queue& queue_;
  const Nanoseconds limit_;
  const bool limited_, strict_ = state_.strict;
  const IdArray<Position, const std::uint32_t> reset_{state_.reset.data()};
  Position* const committed_{state_.committed.data()};
  const Nanoseconds* const duration_{problem_.duration};
  const std::size_t columns_ = problem_.columns;
  std::uint32_t count_ = 0, next_ = 0, next_count_ = 0, epoch_ = 0;
  Nanoseconds latest_, head_, last_head_, bound_;
  bool above_ = false;
};

}  // namespace

DeltaEnd run_delta(const DeltaProblem& problem, DeltaState& state, Nanoseconds limit, bool record) {
  const DenseProblem& dense = problem.dense;
  const std::size_t tasks = std::size_t{dense.ops} + (problem.links == Links::queued ? dense.edges : 0U);
  return state.queues.with_fastest(dense.devices, tasks, dense.horizon, [&](auto& queue) {
    queue.prepare(tasks, dense.mean_gap);
    return with_links(problem.links, [&](auto links) {
      return with_flag(record, [&](auto recorded) {
        using Queue = std::remove_reference_t<decltype(queue)>;
        return Walk<Queue, decltype(links)::value, decltype(recorded)::value>{problem, state, queue, limit}.run();
      });
    });
  });
}

}  // namespace trainyard::detail
