#include "trainyard/place/baechi/m_event_loop.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "trainyard/place/baechi/m_channels.hpp"
#include "trainyard/place/baechi/m_memory.hpp"
#include "trainyard/place/judge/retreat.hpp"
#include "trainyard/place/kit/effort.hpp"
#include "trainyard/place/kit/groups.hpp"

namespace trainyard {
namespace {

/// One run of the loop.
class Run {
 public:
  Run(const Problem& problem, const OpEdges& edges, const IdMap<OpId, OpId>& favourite, const BaechiOptions& options,
      int percent)
      : problem_(problem),
        edges_(edges),
        favourite_(favourite),
        memory_(problem, options.literal, percent),
        checkpoint_(options.stop) {
    const std::vector<OpId> order = edges.fifo_order();
    for (std::size_t i = 0; i < order.size(); ++i) rank_[order[i]] = i;
    for (const OpId op : problem.ops()) {
      waits_for_[op] = edges.into(op).size();
      unread_[op] = edges.out_of(op).size();
    }
  }

  /// Returns all ops in the order in which they were scheduled.
  std::vector<OpId> run() {
    for (const OpId op : problem_.ops())
      if (waits_for_[op] == 0) make_ready(op);
    while (taken_.size() < problem_.op_count()) {
      checkpoint_(problem_.device_count());
      for (const DeviceId device : problem_.devices()) end_running(device);
      while (const auto next = nominated()) commit(next->op, next->device);
      if (taken_.size() == problem_.op_count()) break;
      const Nanoseconds next = next_time();
      if (next == kLongestTime)
        force();
      else
        now_ = next;
    }
    return std::move(taken_);
  }

  Schedule schedule() const { return {.placement = placement_, .plan = Plan{*std::ranges::max_element(end_), start_}}; }

 private:
  struct DeviceState {
    Nanoseconds free;  // no op can start earlier
    OpId running;      // ends later than now
    OpId last;
    bool awake = false;
  };
  struct Nomination {
    OpId op;
    DeviceId device;
  };
  /// Ready ops that may still run on a device, in heaps. Ops that no longer may are removed when they reach the top.
  struct Queue {
    /// By the last known ready(), which transfers only make later.
    struct Waiting {
      Nanoseconds at;
      OpId op;
      bool operator<(const Waiting& other) const { return at > other.at; }
    };
    std::priority_queue<Waiting> waiting;
    /// By rank: ops whose last known ready() was at or before `now`. It may be later again.
    struct Arrived {
      std::size_t rank;
      OpId op;
      bool operator<(const Arrived& other) const { return rank > other.rank; }
    };
    std::priority_queue<Arrived> arrived;
  };
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

  // --- ready ops ---
  bool is_ready(OpId op) const { return slot_[op] != kNoSlot; }

  void make_ready(OpId op) {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<std::uint32_t>(estimates_.size() / problem_.device_count()));
      estimates_.resize(estimates_.size() + problem_.device_count());
    }
    slot_[op] = free_slots_.back();
    free_slots_.pop_back();
    for (const DeviceId device : problem_.devices()) estimate(op, device) = {};
    for (const DeviceId device : devices_for(op)) queues_[device].waiting.push({now_, op});
    ready_.insert(std::ranges::lower_bound(ready_, rank_[op], {}, [&](OpId other) { return rank_[other]; }), op);
  }

  void remove_ready(OpId op) {
    ready_.erase(std::ranges::lower_bound(ready_, rank_[op], {}, [&](OpId other) { return rank_[other]; }));
    free_slots_.push_back(slot_[op]);
    slot_[op] = kNoSlot;
  }

  BaechiChannels::Estimate& estimate(OpId op, DeviceId device) {
    return estimates_[slot_[op] * problem_.device_count() + device.index()];
  }

  bool placed(OpId op) const { return !group_device_[problem_.group(op)].is_none(); }

  std::span<const DeviceId> devices_for(OpId op) const {
    const GroupId group = problem_.group(op);
    return placed(op) ? std::span{&group_device_.values()[group.index()], 1} : able_[group];
  }

  /// Whether the op is ready and may still go to this device.
  bool wants(OpId op, DeviceId device) const {
    return is_ready(op) && (!placed(op) || group_device_[problem_.group(op)] == device);
  }

  bool allowed(OpId op, DeviceId device) {
    checkpoint_(1);
    return std::ranges::binary_search(devices_for(op), device) && memory_.may_run(op, device, placed(op));
  }

  Nanoseconds arrival(OpId op, DeviceId device) {
    return channels_.ready(op, device, placement_, end_, estimate(op, device));
  }

  /// The device must be allowed.
  Nanoseconds sched(OpId op, DeviceId device) { return std::max({arrival(op, device), devices_[device].free, now_}); }

  /// The earliest, or the latest, sched over all devices that are allowed; kLongestTime if none is.
  Nanoseconds earliest(OpId op) {
    Nanoseconds least = kLongestTime;
    for (const DeviceId device : devices_for(op))
      if (allowed(op, device)) least = std::min(least, sched(op, device));
    return least;
  }
  Nanoseconds urgent(OpId op) {
    Nanoseconds most{-1};
    for (const DeviceId device : devices_for(op))
      if (allowed(op, device)) most = std::max(most, sched(op, device));
    return most < Nanoseconds{0} ? kLongestTime : most;
  }
  bool urgent_now(OpId op) {
    for (const DeviceId device : devices_for(op))
      if (devices_[device].free > now_ && allowed(op, device)) return false;
    return urgent(op) == now_;
  }

  // --- choosing ---
  OpId favourite_to_await(DeviceId device) {
    const OpId last = devices_[device].last;
    if (favourite_.empty() || last.is_none()) return OpId::none();
    const OpId child = favourite_[last];
    if (child.is_none() || !is_ready(child) || placed(child) || !allowed(child, device)) return OpId::none();
    return sched(child, device) == earliest(child) ? child : OpId::none();
  }

  /// The op that the free device would start now, if it comes before `limit` in topological order.
  OpId nominee(DeviceId device, std::size_t limit) {
    const OpId child = favourite_to_await(device);
    devices_[device].awake = !child.is_none();
    if (child.is_none()) return first_startable(device, limit);
    for (const OpId op : ready_) {
      if (rank_[op] >= limit) break;
      if (allowed(op, device) && urgent_now(op)) return op;
    }
    return rank_[child] < limit && sched(child, device) == now_ ? child : OpId::none();
  }

  OpId first_startable(DeviceId device, std::size_t limit) {
    auto& [waiting, arrived] = queues_[device];
    while (!waiting.empty() && waiting.top().at <= now_) {
      const OpId op = waiting.top().op;
      waiting.pop();
      if (wants(op, device)) arrived.push({rank_[op], op});
    }
    std::vector<Queue::Arrived> without_room;
    OpId found;
    while (!arrived.empty() && arrived.top().rank < limit && found.is_none()) {
      const auto first = arrived.top();
      if (wants(first.op, device) && allowed(first.op, device) && arrival(first.op, device) <= now_) {
        found = first.op;
        break;
      }
      arrived.pop();
      if (!wants(first.op, device)) continue;
      if (const Nanoseconds at = arrival(first.op, device); at > now_)
        waiting.push({at, first.op});
      else
        without_room.push_back(first);
    }
    for (const auto& each : without_room) arrived.push(each);
    return found;
  }

  std::optional<Nomination> nominated() {
    std::optional<Nomination> first;
    std::size_t limit = problem_.op_count();
    for (const DeviceId device : problem_.devices()) {
      if (devices_[device].free > now_) continue;
      const OpId op = nominee(device, limit);
      if (op.is_none()) continue;
      first = Nomination{op, device};
      limit = rank_[op];
    }
    return first;
  }

  /// The time of the next event while no free device has a nomination; kLongestTime if there is none.
  Nanoseconds next_time() {
    Nanoseconds next = kLongestTime;
    for (const DeviceId device : problem_.devices()) {
      const DeviceState& state = devices_[device];
      if (!state.running.is_none()) next = std::min(next, end_[state.running]);
      if (state.free > now_) {
        next = std::min(next, state.free);
      } else if (state.awake) {
        next = std::min(next, sched(favourite_[state.last], device));
        for (const OpId op : ready_)
          if (allowed(op, device)) next = std::min(next, urgent(op));
      } else {
        next = std::min(next, next_start(device, next));
      }
    }
    assert(next > now_);
    return next;
  }

  /// When the free device, which has no nomination, could start an op, if before `limit`; otherwise `limit`.
  Nanoseconds next_start(DeviceId device, Nanoseconds limit) {
    auto& waiting = queues_[device].waiting;
    std::vector<Queue::Waiting> without_room;
    while (!waiting.empty() && waiting.top().at < limit) {
      auto first = waiting.top();
      waiting.pop();
      if (!wants(first.op, device)) continue;
      const Nanoseconds known = std::exchange(first.at, arrival(first.op, device));
      if (first.at == known && allowed(first.op, device)) limit = known;
      if (first.at == known && !allowed(first.op, device))
        without_room.push_back(first);
      else
        waiting.push(first);
    }
    for (const auto& each : without_room) waiting.push(each);
    return limit;
  }

  // --- events ---
  void end_running(DeviceId device) {
    DeviceState& state = devices_[device];
    if (state.running.is_none() || end_[state.running] > now_) return;
    const OpId op = state.running;
    state.running = OpId::none();
    ended(op);
  }

  void ended(OpId op) {
    for (const EdgeId edge : edges_.out_of(op))
      if (--waits_for_[edges_.to(edge)] == 0) make_ready(edges_.to(edge));
  }

  void commit(OpId op, DeviceId device) {
    DeviceState& state = devices_[device];
    const GroupId group = problem_.group(op);
    if (group_device_[group].is_none()) {
      group_device_[group] = device;
      memory_.place(group, device);
    }
    placement_[op] = device;
    const Nanoseconds arrived = channels_.send(op, device, placement_, end_);
    const Nanoseconds duration = problem_.duration(op, device);
    start_[op] = std::max({arrived, state.free, now_});
    end_[op] = start_[op] + duration;
    state.free = duration == Nanoseconds{0} ? end_[op] : end_[op] + problem_.cluster().device(device).gap;
    state.last = op;
    taken_.push_back(op);
    remove_ready(op);

    memory_.run(op, device, unread_[op] > 0);
    for (const EdgeId edge : edges_.into(op))
      if (const OpId from = edges_.from(edge); --unread_[from] == 0) memory_.release(from, placement_[from]);

    if (end_[op] <= now_)
      ended(op);
    else
      state.running = op;
  }

  void force() {
    const OpId op = ready_.front();
    commit(op, *std::ranges::min_element(devices_for(op), {},
                                         [&](DeviceId device) { return memory_.excess(op, device, placed(op)); }));
  }

  const Problem& problem_;
  const OpEdges& edges_;
  const IdMap<OpId, OpId>& favourite_;
  BaechiMemory memory_;
  BaechiChannels channels_{problem_, edges_};
  AbleDevices able_{group_devices(problem_)};
  IdMap<OpId, std::size_t> rank_{problem_.op_count()}, waits_for_{problem_.op_count()}, unread_{problem_.op_count()};
  IdMap<GroupId, DeviceId> group_device_{problem_.group_count()};
  IdMap<DeviceId, DeviceState> devices_{problem_.device_count()};
  std::vector<OpId> ready_;  // by rank
  IdMap<DeviceId, Queue> queues_{problem_.device_count()};
  IdMap<OpId, std::uint32_t> slot_{problem_.op_count(), kNoSlot};
  std::vector<std::uint32_t> free_slots_;
  std::vector<BaechiChannels::Estimate> estimates_;  // slot x device
  Placement placement_{problem_.op_count()};
  IdMap<OpId, Nanoseconds> start_{problem_.op_count()}, end_{problem_.op_count()};
  std::vector<OpId> taken_;
  Nanoseconds now_{0};
  Checkpoint checkpoint_;
};

}  // namespace

BaechiLoop::BaechiLoop(const Problem& problem, const OpEdges& edges, const IdMap<OpId, OpId>& favourite)
    : problem_(problem), edges_(edges), favourite_(favourite) {}

Schedule BaechiLoop::schedule(const BaechiOptions& options) const {
  Evaluator evaluator{problem_};
  return best_retreat([&](int memory_percent) {
    Run run{problem_, edges_, favourite_, options, memory_percent};
    const std::vector<OpId> taken = run.run();
    Schedule schedule = run.schedule();
    const Outcome outcome = keep_order(evaluator, taken, options.order, schedule, options.stop);
    return Retreat<Outcome>{std::move(schedule), outcome, outcome.excess == Bytes{0} || options.literal};
  });
}

}  // namespace trainyard
