#include "trainyard/simulate/delta/restart.hpp"

#include <algorithm>
#include <tuple>

namespace trainyard::detail {
namespace {

using Edit = Change::Edit;

class Plan {
 public:
  Plan(const DeltaProblem& problem, DeltaState& state) : all_(problem), state_(state) {}

  void make() {
    change_.edits.clear();
    latest_ = state_.epochs() - 1;
    change_.first_match = 0;
    for (const Change::Op& op : change_.ops) {
      latest_ = std::min(latest_, epoch(op.op));
      change_.first_match = std::max(change_.first_match, epoch(op.op) + 1);
    }
    for (const Change::Op& op : change_.ops)
      if (op.moved)
        for (const TensorPosition input : all_.inputs[op.op]) edit_transfers(input, op);
    std::ranges::sort(change_.edits, [&](const Edit& a, const Edit& b) { return key(a) < key(b); });
    for (std::size_t first = 0; first < change_.edits.size();) {
      std::size_t last = first + 1;
      while (last < change_.edits.size() && change_.edits[last].channel == change_.edits[first].channel) ++last;
      if (!change_.edits[first].channel.is_none()) edit_channel(first, last);
      first = last;
    }
    std::erase_if(change_.edits, [&](const Edit& edit) { return epoch(all_.producer[edit.tensor]) >= latest_; });
    for (const Change::Op& op : change_.ops) wait_for(op);
    std::erase_if(change_.edits, [&](const Edit& edit) { return epoch(all_.producer[edit.tensor]) >= latest_; });
    change_.restart = latest_;
    for (Change::Op& op : change_.ops) find_reached(all_, state_, latest_, op);
    change_.first_match = std::max(change_.first_match, latest_ + 1);
  }

 private:
  std::uint32_t epoch(Position op) const { return state_.runs[op].epoch; }
  void restart_before(Position op) { latest_ = std::min(latest_, epoch(op)); }

  bool wanted_at(TensorPosition tensor, DeviceId device) const {
    for (const Edge edge : problem_.graph.edges(tensor))
      if (state_.work.ops[problem_.graph.consumer(edge)].device == device) return true;
    return false;
  }
  bool edited(TensorPosition tensor, DeviceId to) const {
    return std::ranges::any_of(change_.edits, [&](const Edit& e) { return e.tensor == tensor && e.to == to; });
  }

  /// Records the transfers of one input that the move adds and removes.
  void edit_transfers(TensorPosition tensor, const Change::Op& op) {
    const Position producer = all_.producer[tensor];
    if (epoch(producer) >= latest_) return;
    const DeviceId from = state_.work.ops[producer].device;
    const bool adds = op.new_device != from && state_.transfer(all_, tensor, op.new_device) == nullptr;
    const bool removes = op.old_device != from && !wanted_at(tensor, op.old_device);
    if (problem_.broadcasts && ((op.new_device != from && problem_.broadcast(from, op.new_device)) ||
                                (op.old_device != from && problem_.broadcast(from, op.old_device))))
      return restart_before(producer);
    if (removes) edit(tensor, producer, from, op.old_device, false);
    if (adds) edit(tensor, producer, from, op.new_device, true);
  }

  void edit(TensorPosition tensor, Position producer, DeviceId from, DeviceId to, bool add) {
    if (edited(tensor, to)) return;
    const DenseProblem::Pair pair = problem_.pair(from, to);
    const Nanoseconds time = problem_.transfer_time(tensor, pair);
    const bool at_once = time == Nanoseconds{0} || pair.channel.is_none();
    if (!at_once && !problem_.closed(from, to)) return restart_before(producer);
    const Nanoseconds sent = state_.end_of(producer);
    const ChannelId channel = at_once ? ChannelId::none() : pair.channel;
    change_.edits.push_back({channel, tensor, to, add, sent, sent, sent + time, sent, {}});
  }

  // The order of the transfers on a channel fed by one device.
  using Key = std::tuple<ChannelId, Nanoseconds, TensorPosition, DeviceId>;
  static Key key(const Edit& edit) { return {edit.channel, edit.sent, edit.tensor, edit.to}; }
  Key key(ChannelId channel, Slot slot) const {
    const TransferRun& run = state_.transfers[slot];
    return {channel, state_.end_of(all_.producer[run.tensor]), run.tensor, run.to};
  }

  /// Inserts the edits into the order of their channel, and restarts before the first one that delays or advances
  /// another transfer.
  void edit_channel(std::size_t first, std::size_t last) {
    auto& edits = change_.edits;
    const ChannelId channel = edits[first].channel;
    const auto& order = state_.channel_order[channel];
    const Nanoseconds gap = problem_.channel_gap[channel];
    Nanoseconds free;
    std::size_t done = 0;  // position in the order
    for (std::size_t i = first; i < last; ++i) {
      Edit& edit = edits[i];
      const auto place = std::lower_bound(order.begin() + static_cast<std::ptrdiff_t>(done), order.end(), key(edit),
                                          [&](Slot slot, const Key& k) { return key(channel, slot) < k; });
      const auto at = static_cast<std::size_t>(place - order.begin());
      if (at > done) free = state_.end_of(state_.transfers[order[at - 1]]) + gap;
      done = at;
      if (edit.add) {
        const Nanoseconds time = edit.end - edit.start;
        edit.start = std::max(edit.sent, free);
        edit.end = edit.start + time;
        free = edit.end + gap;
      } else {
        ++done;
      }
      edit.free_after = free;
      edit.next = done < order.size() ? order[done] : Slot::none();
      if (edit.next.is_none() || (i + 1 < last && key(edits[i + 1]) <= key(channel, edit.next))) {
        edit.next = Slot::none();
        continue;
      }
      const TransferRun& next = state_.transfers[edit.next];
      const Nanoseconds ready = state_.end_of(all_.producer[next.tensor]);
      if (next.epoch < latest_ && std::max(ready, free) != state_.start_of(next))
        restart_before(all_.producer[edit.tensor]);
    }
  }

  /// Ensures that no task committed before the restart comes after the op's new turn.
  void wait_for(const Change::Op& op) {
    Change::Op reached = op;
    find_reached(all_, state_, latest_, reached);
    if (reached.pending > 0 || latest_ == 0) return;
    if (problem_.duration_of(op.op, op.new_device) == Nanoseconds{0}) {
      // The op runs when the last of its inputs arrives.
      std::uint32_t last = 0;
      for (const TensorPosition input : all_.inputs[op.op]) last = std::max(last, epoch(all_.producer[input]));
      for (const Position earlier : all_.after[op.op]) last = std::max(last, epoch(earlier));
      latest_ = std::min(latest_, last);
      return;
    }
    const auto later = [&](const Snapshot& snapshot) {
      return std::pair{snapshot.head, std::size_t{snapshot.head_task}} >
             std::pair{reached.ready, problem_.op_id(op.op).index()};
    };
    const auto end = state_.snapshots.begin() + latest_ + 1;
    const auto found = std::find_if(std::make_reverse_iterator(end), state_.snapshots.rend(),
                                    [&](const Snapshot& snapshot) { return !later(snapshot); });
    latest_ = found == state_.snapshots.rend() ? 0 : static_cast<std::uint32_t>(state_.snapshots.rend() - found) - 1;
  }

  const DeltaProblem& all_;
  const DenseProblem& problem_ = all_.dense;
  DeltaState& state_;
  Change& change_ = state_.change;
  std::uint32_t latest_ = 0;  // the restart found so far
};

}  // namespace

void plan_restart(const DeltaProblem& problem, DeltaState& state) { Plan{problem, state}.make(); }

void find_reached(const DeltaProblem& problem, const DeltaState& state, std::uint32_t snapshot, Change::Op& op) {
  op.pending = 0;
  op.ready = Nanoseconds{0};
  const auto arrive = [&](Nanoseconds time) { op.ready = std::max(op.ready, time); };
  const auto wait_for = [&](Position earlier) {
    if (state.runs[earlier].epoch >= snapshot)
      ++op.pending;
    else
      arrive(state.end_of(earlier));
  };
  for (const TensorPosition tensor : problem.inputs[op.op]) {
    const Position producer = problem.producer[tensor];
    if (state.runs[producer].epoch >= snapshot || state.work.ops[producer].device == op.new_device) {
      wait_for(producer);
      continue;
    }
    const auto edit = std::ranges::find_if(
        state.change.edits, [&](const Edit& e) { return e.add && e.tensor == tensor && e.to == op.new_device; });
    if (edit != state.change.edits.end()) {
      arrive(edit->end);
      continue;
    }
    const TransferRun* const transfer = state.transfer(problem, tensor, op.new_device);
    if (transfer == nullptr || transfer->epoch >= snapshot)
      ++op.pending;
    else
      arrive(state.end_of(*transfer));
  }
  for (const Position earlier : problem.after[op.op]) wait_for(earlier);
  if (const Position turn = state.turn_after[op.op]; !turn.is_none()) wait_for(turn);
}

}  // namespace trainyard::detail
