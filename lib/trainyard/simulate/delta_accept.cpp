#include "trainyard/simulate/delta_accept.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "trainyard/simulate/delta_restart.hpp"

namespace trainyard::detail {
namespace {

class Acceptance {
 public:
  Acceptance(const DeltaProblem& problem, DeltaState& state)
      : all_(problem),
        problem_(problem.dense),
        state_(state),
        change_(state.change),
        restart_(change_.restart),
        meets_(state.meets),
        first_op_(state.snapshots[restart_].committed) {}

  void make() {
    patch_snapshots();
    // What is added may need the slot of what is taken away.
    for (const bool add : {false, true})
      for (const Change::Edit& edit : change_.edits)
        if (edit.add == add) apply(edit);
    take_from_channels();
    replace_transfers();
    for (std::uint32_t i = first_op_; i < state_.count; ++i) {
      const std::uint32_t op = state_.committed[i];
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
  std::uint32_t slots(std::uint32_t tensor) const {
    return problem_.first_consumer[tensor + 1] - problem_.first_consumer[tensor];
  }
  std::uint32_t old_device(std::uint32_t op) const {
    if (state_.changed[op] != 0)
      for (const Change::Op& change : change_.ops)
        if (change.op == op) return change.old_device;
    return state_.work.ops[op].device;
  }
  /// The channel on whose list the transfer stands; kNone: on none.
  std::uint32_t listed_on(std::uint32_t tensor, std::uint32_t from, std::uint32_t to) const {
    const DenseProblem::Pair pair = problem_.pair(from, to);
    if (pair.channel == DenseProblem::kNoChannel || !problem_.closed(from, to)) return kNone;
    return problem_.transfer_time(tensor, pair) > 0 ? pair.channel : kNone;
  }

  // --- before the restart ---

  /// Snapshots up to the restart are right but for what has reached the changed ops, and the channels that the edits
  /// are on.
  void patch_snapshots() {
    for (std::uint32_t i = first_difference() + 1; i <= restart_; ++i) {
      Snapshot& snapshot = state_.snapshots[i];
      for (Change::Op op : change_.ops) {
        find_reached(all_, state_, i, op);
        patch_frontier(snapshot, op);
      }
      patch_channels(state_, all_, i, [&](std::uint32_t channel, std::int64_t free) {
        patch_channel(snapshot, channel, free - snapshot.head);
      });
    }
  }
  /// The first epoch in which anything reaches a changed op that reached it otherwise before.
  std::uint32_t first_difference() const {
    std::uint32_t first = restart_;
    for (const Change::Op& op : change_.ops) {
      if (op.moved)
        for (std::uint32_t i = all_.first_input[op.op]; i < all_.first_input[op.op + 1]; ++i)
          first = std::min(first, state_.runs[all_.producer[all_.input[i]]].epoch);
      const std::uint32_t turn = state_.turn_after[op.op];
      if (turn == op.old_turn_after) continue;
      // Waiting for nobody shows from the start.
      for (const std::uint32_t before : {turn, op.old_turn_after})
        first = std::min(first, before == kNone ? 0 : state_.runs[before].epoch);
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
    const Snapshot::Touched touched{op.op, op.pending, std::max(op.ready - snapshot.head, std::int64_t{0})};
    if (entry == frontier.end())
      frontier.push_back(touched);
    else
      *entry = touched;
  }
  static void patch_channel(Snapshot& snapshot, std::uint32_t channel, std::int64_t free) {
    auto& channels = snapshot.channels;
    const auto entry = std::ranges::find(channels, channel, &Snapshot::Busy::channel);
    if (free <= 0) {
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
    const std::uint32_t producer = all_.producer[edit.tensor], epoch = state_.runs[producer].epoch;
    const std::uint32_t first = problem_.slot(edit.tensor), last = first + slots(edit.tensor);
    std::uint32_t slot = first;
    while (slot < last && state_.transfers[slot].to != (edit.add ? kNone : edit.to)) ++slot;
    if (!edit.add) {
      state_.transfers[slot].to = kNone;
      if (edit.channel != kNone) std::erase(state_.channel_order[edit.channel], slot);
      return;
    }
    const std::int64_t head = state_.snapshots[epoch].head;
    state_.transfers[slot] = {edit.start - head, edit.end - head, epoch, edit.to, edit.tensor};
    if (edit.channel == kNone) return;
    auto& order = state_.channel_order[edit.channel];
    const auto key = [&](std::uint32_t at) {
      const TransferRun& run = state_.transfers[at];
      return std::tuple{state_.end_of(all_.producer[run.tensor]), run.tensor, run.to};
    };
    order.insert(std::ranges::lower_bound(order, key(slot), {}, key), slot);
  }

  // --- what was run again ---

  template <class Visit>
  void each_tensor(const Visit& visit) const {
    for (std::uint32_t i = first_op_; i < state_.count; ++i) {
      const std::uint32_t op = state_.committed[i];
      for (std::uint32_t tensor = problem_.first_output[op]; tensor < problem_.first_output[op + 1]; ++tensor)
        visit(op, tensor);
    }
  }

  void take_from_channels() {
    each_tensor([&](std::uint32_t op, std::uint32_t tensor) {
      const std::uint32_t from = old_device(op);
      for (std::uint32_t slot = problem_.slot(tensor); slot < problem_.slot(tensor) + slots(tensor); ++slot) {
        if (state_.transfers[slot].to == kNone) continue;
        const std::uint32_t channel = listed_on(tensor, from, state_.transfers[slot].to);
        if (channel == kNone) continue;
        // All of them at once; the next ones find none.
        auto& order = state_.channel_order[channel];
        const auto first = from_epoch(order, restart_), last = from_epoch(order, meets_);
        order.erase(first, last);
      }
    });
  }
  std::vector<std::uint32_t>::iterator from_epoch(std::vector<std::uint32_t>& order, std::uint32_t epoch) const {
    return std::ranges::lower_bound(order, epoch, {}, [&](std::uint32_t slot) { return state_.transfers[slot].epoch; });
  }
  /// Behind those of the epochs before the restart, in the order of their commits.
  void put_into_channels() {
    each_tensor([&](std::uint32_t op, std::uint32_t tensor) {
      const std::uint32_t from = state_.work.ops[op].device;
      for (std::uint32_t slot = problem_.slot(tensor); slot < problem_.slot(tensor) + slots(tensor); ++slot) {
        if (state_.transfers[slot].to == kNone) continue;
        const std::uint32_t channel = listed_on(tensor, from, state_.transfers[slot].to);
        if (channel == kNone) continue;
        auto& order = state_.channel_order[channel];
        order.insert(from_epoch(order, meets_), slot);
      }
    });
  }

  void replace_transfers() {
    // Transfers under way at the restart: those that have arrived since.
    for (const Snapshot::Flight& flight : state_.snapshots[restart_].flights) {
      const std::uint32_t first = problem_.slot(flight.tensor), last = first + slots(flight.tensor);
      for (std::uint32_t slot = first; slot < last; ++slot) {
        const TransferRun& run = state_.new_transfers[slot];
        if (run.to != flight.to || run.epoch == kNone) continue;
        for (std::uint32_t old = first; old < last; ++old)
          if (state_.transfers[old].to == flight.to) state_.transfers[old] = run;
      }
    }
    each_tensor([&](std::uint32_t, std::uint32_t tensor) {
      const std::uint32_t first = problem_.slot(tensor), last = first + slots(tensor);
      // Those under way where the runs meet: as before.
      for (std::uint32_t slot = first; slot < last; ++slot) {
        TransferRun& run = state_.new_transfers[slot];
        if (run.to == kNone || run.epoch != kNone) continue;
        for (std::uint32_t old = first; old < last; ++old)
          if (state_.transfers[old].to == run.to) run = state_.transfers[old];
      }
      std::copy(state_.new_transfers.begin() + first, state_.new_transfers.begin() + last,
                state_.transfers.begin() + first);
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
    state_.latest_before[0] = 0;
    state_.latest_from[epochs] = 0;
    const auto latest = [&](std::uint32_t epoch) { return state_.snapshots[epoch].head + state_.epoch_latest[epoch]; };
    for (std::uint32_t i = 0; i < epochs; ++i)
      state_.latest_before[i + 1] = std::max(state_.latest_before[i], latest(i));
    for (std::uint32_t i = epochs; i-- > 0;) state_.latest_from[i] = std::max(state_.latest_from[i + 1], latest(i));
    state_.makespan = state_.latest_from[0];
  }

  const DeltaProblem& all_;
  const DenseProblem& problem_;
  DeltaState& state_;
  Change& change_;
  const std::uint32_t restart_, meets_, first_op_;
};

}  // namespace

void accept_run(const DeltaProblem& problem, DeltaState& state) { Acceptance{problem, state}.make(); }

void fill_record(const DeltaProblem& problem, const DeltaState& state, Workspace::Record& record) {
  const DenseProblem& dense = problem.dense;
  for (std::uint32_t op = 0; op < dense.ops; ++op) {
    record.ops[OpId{dense.op_id(op)}] = {Nanoseconds{state.start_of(op)}, Nanoseconds{state.end_of(op)}};
    for (std::uint32_t tensor = dense.first_output[op]; tensor < dense.first_output[op + 1]; ++tensor) {
      const std::uint32_t first = dense.slot(tensor);
      const std::uint32_t slots = dense.first_consumer[tensor + 1] - dense.first_consumer[tensor];
      std::uint32_t count = 0;
      for (std::uint32_t slot = first; slot < first + slots; ++slot) {
        const TransferRun& run = state.transfers[slot];
        if (run.to != kNone)
          record.transfers[first + count++] = {state.end_of(op), state.start_of(run), state.end_of(run), run.to};
      }
      record.transfers_of[dense.tensor_id(tensor).index()] = count;
    }
  }
}

}  // namespace trainyard::detail
