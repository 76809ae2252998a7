#include "trainyard/simulate/delta/accept.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "trainyard/simulate/delta/restart.hpp"

namespace trainyard::detail {
namespace {

class Acceptance {
 public:
  Acceptance(const DeltaProblem& problem, DeltaState& state) : all_(problem), state_(state) {}

  void make() {
    patch_snapshots();
    // Removals first, because an addition may need the slot.
    for (const bool add : {false, true})
      for (const Change::Edit& edit : change_.edits)
        if (edit.add == add) apply(edit);
    take_from_channels();
    replace_transfers();
    for (std::uint32_t i = first_op_; i < state_.count; ++i) {
      const Position op = state_.committed[i];
      state_.runs[op] = state_.new_runs[op];
    }
    for (std::uint32_t i = restart_; i < meets_; ++i) {
      state_.epoch_latest[i] = state_.new_epoch_latest[i];
      if (i > restart_) std::swap(state_.snapshots[i], state_.new_snapshots[i]);
    }
    for (std::uint32_t i = meets_; i < state_.epochs(); ++i) move_snapshot(state_.snapshots[i]);
    put_into_channels();
    find_latest();
  }

 private:
  DeviceId old_device(Position op) const {
    if (state_.changed[op] != 0)
      for (const Change::Op& change : change_.ops)
        if (change.op == op) return change.old_device;
    return state_.work.ops[op].device;
  }
  /// The channel whose list contains the transfer, or none.
  ChannelId listed_on(TensorPosition tensor, DeviceId from, DeviceId to) const {
    const DenseProblem::Pair pair = problem_.pair(from, to);
    const bool listed = problem_.closed(from, to) && problem_.transfer_time(tensor, pair) > Nanoseconds{0};
    return listed ? pair.channel : ChannelId::none();
  }

  // --- before the restart ---

  /// Snapshots up to the restart remain valid, except for the inputs of the changed ops and the channels of the edits.
  void patch_snapshots() {
    for (std::uint32_t i = first_difference() + 1; i <= restart_; ++i) {
      Snapshot& snapshot = state_.snapshots[i];
      for (Change::Op op : change_.ops) {
        find_reached(all_, state_, i, op);
        patch_frontier(snapshot, op);
      }
      patch_channels(state_, all_, i, [&](ChannelId channel, Nanoseconds free) {
        patch_channel(snapshot, channel, free - snapshot.head);
      });
    }
  }
  /// The first epoch in which an input of a changed op arrives at another time than before.
  std::uint32_t first_difference() const {
    std::uint32_t first = restart_;
    for (const Change::Op& op : change_.ops) {
      if (op.moved)
        for (const TensorPosition input : all_.inputs[op.op])
          first = std::min(first, state_.runs[all_.producer[input]].epoch);
      const Position turn = state_.turn_after[op.op];
      if (turn == op.old_turn_after) continue;
      // Whether an op waits for none is visible from the start.
      for (const Position before : {turn, op.old_turn_after})
        first = std::min(first, before.is_none() ? 0 : state_.runs[before].epoch);
    }
    return first;
  }
  void patch_frontier(Snapshot& snapshot, const Change::Op& op) const {
    auto& frontier = snapshot.frontier;
    const auto entry = std::ranges::find(frontier, op.op, &Snapshot::Touched::op);
    if (op.pending == state_.reset[op.op]) {
      if (entry == frontier.end()) return;
      *entry = frontier.back();
      frontier.pop_back();
      return;
    }
    const Snapshot::Touched touched{op.op, op.pending, std::max(op.ready - snapshot.head, Nanoseconds{0})};
    if (entry == frontier.end())
      frontier.push_back(touched);
    else
      *entry = touched;
  }
  static void patch_channel(Snapshot& snapshot, ChannelId channel, Nanoseconds free) {
    auto& channels = snapshot.channels;
    const auto entry = std::ranges::find(channels, channel, &Snapshot::Busy::channel);
    if (free <= Nanoseconds{0}) {
      if (entry == channels.end()) return;
      *entry = channels.back();
      channels.pop_back();
    } else if (entry == channels.end()) {
      channels.push_back({channel, free});
    } else {
      entry->free = free;
    }
  }

  void apply(const Change::Edit& edit) {
    const std::uint32_t epoch = state_.runs[all_.producer[edit.tensor]].epoch;
    const IdRange<Slot> slots = problem_.slots(edit.tensor);
    const DeviceId there = edit.add ? DeviceId::none() : edit.to;
    const Slot slot =
        *std::find_if(slots.begin(), slots.end(), [&](Slot at) { return state_.transfers[at].to == there; });
    if (!edit.add) {
      state_.transfers[slot].to = DeviceId::none();
      if (!edit.channel.is_none()) std::erase(state_.channel_order[edit.channel], slot);
      return;
    }
    const Nanoseconds head = state_.snapshots[epoch].head;
    state_.transfers[slot] = {edit.start - head, edit.end - head, epoch, edit.to, edit.tensor};
    if (edit.channel.is_none()) return;
    auto& order = state_.channel_order[edit.channel];
    const auto key = [&](Slot at) {
      const TransferRun& run = state_.transfers[at];
      return std::tuple{state_.end_of(all_.producer[run.tensor]), run.tensor, run.to};
    };
    order.insert(std::ranges::lower_bound(order, key(slot), {}, key), slot);
  }

  // --- tasks that were run again ---

  template <class Visit>
  void each_tensor(const Visit& visit) const {
    for (std::uint32_t i = first_op_; i < state_.count; ++i)
      for (const TensorPosition tensor : problem_.graph.outputs(state_.committed[i]))
        visit(state_.committed[i], tensor);
  }
  /// Visits the transfers of the tensor from that device that are on the list of a channel.
  template <class Visit>
  void each_listed(TensorPosition tensor, DeviceId from, const Visit& visit) const {
    for (const Slot slot : problem_.slots(tensor)) {
      const DeviceId to = state_.transfers[slot].to;
      if (to.is_none()) continue;
      if (const ChannelId channel = listed_on(tensor, from, to); !channel.is_none())
        visit(slot, state_.channel_order[channel]);
    }
  }
  void take_from_channels() {
    each_tensor([&](Position op, TensorPosition tensor) {
      each_listed(tensor, old_device(op), [&](Slot, std::vector<Slot>& order) {
        // Erases all of them at once; later calls find none.
        const auto first = from_epoch(order, restart_), last = from_epoch(order, meets_);
        order.erase(first, last);
      });
    });
  }
  std::vector<Slot>::iterator from_epoch(std::vector<Slot>& order, std::uint32_t epoch) const {
    return std::ranges::lower_bound(order, epoch, {}, [&](Slot slot) { return state_.transfers[slot].epoch; });
  }
  /// Inserts them behind the transfers of the epochs before the restart, in the order of their commits.
  void put_into_channels() {
    each_tensor([&](Position op, TensorPosition tensor) {
      each_listed(tensor, state_.work.ops[op].device,
                  [&](Slot slot, std::vector<Slot>& order) { order.insert(from_epoch(order, meets_), slot); });
    });
  }

  void replace_transfers() {
    // Transfers in flight at the restart that have arrived since.
    for (const Snapshot::Flight& flight : state_.snapshots[restart_].flights)
      for (const Slot slot : problem_.slots(flight.tensor)) {
        const TransferRun& run = state_.new_transfers[slot];
        if (run.to != flight.to || run.epoch == kNone) continue;
        for (const Slot old : problem_.slots(flight.tensor))
          if (state_.transfers[old].to == flight.to) state_.transfers[old] = run;
      }
    each_tensor([&](Position, TensorPosition tensor) {
      const IdRange<Slot> slots = problem_.slots(tensor);
      // Transfers in flight where the runs meet keep their times.
      for (const Slot slot : slots) {
        TransferRun& run = state_.new_transfers[slot];
        if (run.to.is_none() || run.epoch != kNone) continue;
        for (const Slot old : slots)
          if (state_.transfers[old].to == run.to) run = state_.transfers[old];
      }
      for (const Slot slot : slots) state_.transfers[slot] = state_.new_transfers[slot];
    });
  }

  void move_snapshot(Snapshot& snapshot) const {
    snapshot.head += state_.shift;
    for (const Change::Op& op : change_.ops) {
      if (!op.moved) continue;
      snapshot.work_done[op.old_device] -= problem_.duration_of(op.op, op.old_device);
      snapshot.work_done[op.new_device] += problem_.duration_of(op.op, op.new_device);
    }
  }

  void find_latest() {
    const std::uint32_t epochs = state_.epochs();
    state_.latest_before.resize(epochs + 1);
    state_.latest_from.resize(epochs + 1);
    state_.latest_before[0] = Nanoseconds{0};
    state_.latest_from[epochs] = Nanoseconds{0};
    const auto latest = [&](std::uint32_t epoch) { return state_.snapshots[epoch].head + state_.epoch_latest[epoch]; };
    for (std::uint32_t i = 0; i < epochs; ++i)
      state_.latest_before[i + 1] = std::max(state_.latest_before[i], latest(i));
    for (std::uint32_t i = epochs; i-- > 0;) state_.latest_from[i] = std::max(state_.latest_from[i + 1], latest(i));
    state_.makespan = state_.latest_from[0];
  }

  const DeltaProblem& all_;
  const DenseProblem& problem_ = all_.dense;
  DeltaState& state_;
  Change& change_ = state_.change;
  const std::uint32_t restart_ = change_.restart, meets_ = state_.meets,
                      first_op_ = state_.snapshots[restart_].committed;
};

}  // namespace

void accept_run(const DeltaProblem& problem, DeltaState& state) { Acceptance{problem, state}.make(); }

void fill_record(const DeltaProblem& problem, const DeltaState& state, Record& record) {
  const DenseProblem& dense = problem.dense;
  for (const Position op : dense.positions()) {
    record.ops[dense.op_id(op)] = {state.start_of(op), state.end_of(op)};
    for (const TensorPosition tensor : dense.graph.outputs(op)) {
      std::uint32_t count = 0;
      for (const Slot slot : dense.slots(tensor)) {
        const TransferRun& run = state.transfers[slot];
        if (!run.to.is_none())
          record.transfers[dense.slot(tensor, count++)] = {state.end_of(op), state.start_of(run), state.end_of(run),
                                                           run.to};
      }
      record.transfer_count[dense.tensor_id(tensor)] = count;
    }
  }
}

}  // namespace trainyard::detail
