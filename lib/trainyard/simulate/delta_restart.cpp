#include "trainyard/simulate/delta_restart.hpp"

#include <algorithm>
#include <tuple>

namespace trainyard::detail {
namespace {

using Edit = Change::Edit;

class Plan {
 public:
  Plan(const DeltaProblem& problem, DeltaState& state)
      : all_(problem), problem_(problem.dense), state_(state), change_(state.change) {}

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
        for (std::uint32_t i = all_.first_input[op.op]; i < all_.first_input[op.op + 1]; ++i)
          edit_transfers(all_.input[i], op);
    std::ranges::sort(change_.edits, [&](const Edit& a, const Edit& b) { return key(a) < key(b); });
    for (std::size_t first = 0; first < change_.edits.size();) {
      std::size_t last = first + 1;
      while (last < change_.edits.size() && change_.edits[last].channel == change_.edits[first].channel) ++last;
      if (change_.edits[first].channel != kNone) edit_channel(first, last);
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
  std::uint32_t epoch(std::uint32_t op) const { return state_.runs[op].epoch; }
  void restart_before(std::uint32_t op) { latest_ = std::min(latest_, epoch(op)); }

  bool wanted_at(std::uint32_t tensor, std::uint32_t device) const {
    for (std::uint32_t edge = problem_.first_consumer[tensor]; edge < problem_.first_consumer[tensor + 1]; ++edge)
      if (state_.work.ops[problem_.consumer[edge].index()].device == device) return true;
    return false;
  }
  bool edited(std::uint32_t tensor, std::uint32_t to) const {
    return std::ranges::any_of(change_.edits, [&](const Edit& e) { return e.tensor == tensor && e.to == to; });
  }

  /// The transfers of one input that the move adds and takes away.
  void edit_transfers(std::uint32_t tensor, const Change::Op& op) {
    const std::uint32_t producer = all_.producer[tensor];
    if (epoch(producer) >= latest_) return;
    const std::uint32_t from = state_.work.ops[producer].device;
    const bool adds = op.new_device != from && state_.transfer(all_, tensor, op.new_device) == nullptr;
    const bool removes = op.old_device != from && !wanted_at(tensor, op.old_device);
    if (problem_.broadcasts && ((op.new_device != from && problem_.broadcast(from, op.new_device)) ||
                                (op.old_device != from && problem_.broadcast(from, op.old_device))))
      return restart_before(producer);
    if (removes) edit(tensor, producer, from, op.old_device, false);
    if (adds) edit(tensor, producer, from, op.new_device, true);
  }

  void edit(std::uint32_t tensor, std::uint32_t producer, std::uint32_t from, std::uint32_t to, bool add) {
    if (edited(tensor, to)) return;
    const DenseProblem::Pair pair = problem_.pair(from, to);
    const std::int64_t time = problem_.transfer_time(tensor, pair);
    const bool at_once = time == 0 || pair.channel == DenseProblem::kNoChannel;
    if (!at_once && !problem_.closed(from, to)) return restart_before(producer);
    const std::int64_t sent = state_.end_of(producer);
    change_.edits.push_back({at_once ? kNone : pair.channel, tensor, to, add, sent, sent, sent + time, sent, kNone});
  }

  // The order of transfers on a channel that one device feeds.
  using Key = std::tuple<std::uint32_t, std::int64_t, std::uint32_t, std::uint32_t>;
  static Key key(const Edit& edit) { return {edit.channel, edit.sent, edit.tensor, edit.to}; }
  Key key(std::uint32_t channel, std::uint32_t slot) const {
    const TransferRun& run = state_.transfers[slot];
    return {channel, state_.end_of(all_.producer[run.tensor]), run.tensor, run.to};
  }

  /// Puts the edits into the order of their channel, and restarts before the first one that anybody would notice.
  void edit_channel(std::size_t first, std::size_t last) {
    auto& edits = change_.edits;
    const std::uint32_t channel = edits[first].channel;
    const auto& order = state_.channel_order[channel];
    const std::int64_t gap = problem_.channel_gap[channel];
    std::int64_t free = 0;
    std::size_t done = 0;  // of the order
    for (std::size_t i = first; i < last; ++i) {
      Edit& edit = edits[i];
      const auto place = std::lower_bound(order.begin() + static_cast<std::ptrdiff_t>(done), order.end(), key(edit),
                                          [&](std::uint32_t slot, const Key& k) { return key(channel, slot) < k; });
      const auto at = static_cast<std::size_t>(place - order.begin());
      if (at > done) free = state_.end_of(state_.transfers[order[at - 1]]) + gap;
      done = at;
      if (edit.add) {
        const std::int64_t time = edit.end - edit.start;
        edit.start = std::max(edit.sent, free);
        edit.end = edit.start + time;
        free = edit.end + gap;
      } else {
        ++done;
      }
      edit.free_after = free;
      edit.next = done < order.size() ? order[done] : kNone;
      if (edit.next == kNone || (i + 1 < last && key(edits[i + 1]) <= key(channel, edit.next))) {
        edit.next = kNone;
        continue;
      }
      const TransferRun& next = state_.transfers[edit.next];
      const std::int64_t ready = state_.end_of(all_.producer[next.tensor]);
      if (next.epoch < latest_ && std::max(ready, free) != state_.start_of(next))
        restart_before(all_.producer[edit.tensor]);
    }
  }

  /// Nothing that was committed before the restart may come after the op's new turn.
  void wait_for(const Change::Op& op) {
    Change::Op reached = op;
    find_reached(all_, state_, latest_, reached);
    if (reached.pending > 0 || latest_ == 0) return;
    if (problem_.duration_of(op.op, op.new_device) == 0) {
      // It runs when the last of its inputs arrives.
      std::uint32_t last = 0;
      for (std::uint32_t i = all_.first_input[op.op]; i < all_.first_input[op.op + 1]; ++i)
        last = std::max(last, epoch(all_.producer[all_.input[i]]));
      for (std::uint32_t i = all_.first_after[op.op]; i < all_.first_after[op.op + 1]; ++i)
        last = std::max(last, epoch(all_.after[i]));
      latest_ = std::min(latest_, last);
      return;
    }
    const auto later = [&](const Snapshot& snapshot) {
      return std::pair{snapshot.head, snapshot.head_task} > std::pair{reached.ready, problem_.op_id(op.op)};
    };
    const auto end = state_.snapshots.begin() + latest_ + 1;
    const auto found = std::find_if(std::make_reverse_iterator(end), state_.snapshots.rend(),
                                    [&](const Snapshot& snapshot) { return !later(snapshot); });
    latest_ = found == state_.snapshots.rend() ? 0 : static_cast<std::uint32_t>(state_.snapshots.rend() - found) - 1;
  }

  const DeltaProblem& all_;
  const DenseProblem& problem_;
  DeltaState& state_;
  Change& change_;
  std::uint32_t latest_ = 0;  // the restart, as far as is known
};

}  // namespace

void plan_restart(const DeltaProblem& problem, DeltaState& state) { Plan{problem, state}.make(); }

void find_reached(const DeltaProblem& problem, const DeltaState& state, std::uint32_t snapshot, Change::Op& op) {
  op.pending = 0;
  op.ready = 0;
  const auto arrive = [&](std::int64_t time) { op.ready = std::max(op.ready, time); };
  for (std::uint32_t i = problem.first_input[op.op]; i < problem.first_input[op.op + 1]; ++i) {
    const std::uint32_t tensor = problem.input[i], producer = problem.producer[tensor];
    if (state.runs[producer].epoch >= snapshot) {
      ++op.pending;
      continue;
    }
    if (state.work.ops[producer].device == op.new_device) {
      arrive(state.end_of(producer));
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
  for (std::uint32_t i = problem.first_after[op.op]; i < problem.first_after[op.op + 1]; ++i) {
    if (state.runs[problem.after[i]].epoch >= snapshot)
      ++op.pending;
    else
      arrive(state.end_of(problem.after[i]));
  }
  if (const std::uint32_t turn = state.turn_after[op.op]; turn != kNone) {
    if (state.runs[turn].epoch >= snapshot)
      ++op.pending;
    else
      arrive(state.end_of(turn));
  }
}

}  // namespace trainyard::detail
