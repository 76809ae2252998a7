#include "trainyard/simulate/delta.hpp"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "trainyard/simulate/delta_accept.hpp"
#include "trainyard/simulate/delta_order.hpp"
#include "trainyard/simulate/delta_problem.hpp"
#include "trainyard/simulate/delta_restart.hpp"
#include "trainyard/simulate/delta_state.hpp"
#include "trainyard/simulate/delta_walk.hpp"
#include "trainyard/simulate/event_engine.hpp"
#include "trainyard/simulate/memory.hpp"
#include "trainyard/simulate/peaks.hpp"
#include "trainyard/simulate/record.hpp"
#include "trainyard/simulate/run_engine.hpp"
#include "trainyard/simulate/usage.hpp"

namespace trainyard {

using detail::Change;
using detail::DeltaEnd;
using detail::DeltaState;
using detail::kNone;
using detail::Snapshot;

struct DeltaSimulation::State {
  State(std::shared_ptr<const detail::DeltaProblem> p, Schedule s)
      : all(std::move(p)),
        problem(all->dense),
        schedule(std::move(s)),
        state(*all, schedule.policy),
        order(problem, schedule),
        order_changed(problem.devices, 0),
        workspace(problem) {
    for (std::uint32_t op = 0; op < problem.ops; ++op)
      state.work.ops[op].device = static_cast<std::uint32_t>(schedule.placement[OpId{problem.op_id(op)}].index());
    for (std::uint32_t op = 0; op < problem.ops; ++op) {
      state.device_work[state.work.ops[op].device] += duration(op);
      if (state.strict && duration(op) > 0) set_turn(op, turn_in_order(op));
    }
    for (std::uint32_t op = 0; op < problem.ops; ++op) set_pending(op);
    if (full()) {
      state.makespan = run_in_full(state.strict).count;
      keep_times();
    } else {
      record_all();
    }
  }

  bool fair() const { return problem.problem.cluster().has_fair_channels(); }
  /// Every run is a full one.
  bool full() const { return schedule.policy == Policy::priority || fair(); }
  Nanoseconds run_in_full(bool record) {
    return Nanoseconds{detail::run_engine(problem, written_schedule(), nullptr, record, workspace)};
  }
  /// Of a full run under `strict`: what turns are found by.
  void keep_times() {
    if (!state.strict) return;
    state.snapshots.assign(1, {});
    for (const OpId op : problem.problem.ops()) {
      const Span span = workspace.record.ops[op];
      state.runs[position(op)] = {span.start.count, span.end.count, 0};
    }
  }

  void record_all() {
    record_from_start();
    // Snapshots take at most about 100 bytes per op; where many ops wait at once, they stand further apart.
    std::size_t bytes = 0;
    for (const Snapshot& snapshot : state.snapshots) bytes += snapshot.bytes();
    const std::size_t most = std::max<std::size_t>(100 * std::size_t{problem.ops}, 64 << 10);
    if (bytes <= most) return;
    state.spacing *= static_cast<std::uint32_t>(bytes / most + 1);
    record_from_start();
  }
  void record_from_start() {
    const std::uint32_t epochs = std::max(1U, (problem.ops + state.spacing - 1) / state.spacing);
    state.snapshots.assign(epochs, {});
    state.new_snapshots.assign(epochs, {});
    state.snapshots[0].work_done.assign(problem.devices, 0);
    state.epoch_latest.assign(epochs, 0);
    state.latest_before.assign(epochs + 1, 0);
    for (auto& order_on_channel : state.channel_order) order_on_channel.clear();
    for (auto& transfer : state.transfers) transfer.to = kNone;
    state.change = {};
    state.change.first_match = kNone;
    detail::run_delta(*all, state, kNoLimit.count, true);
    state.shift = 0;
    detail::accept_run(*all, state);
  }

  std::int64_t duration(std::uint32_t op) const { return problem.duration_of(op, state.work.ops[op].device); }
  std::uint32_t position(OpId op) const { return problem.position(op.index()); }

  // --- turns ---

  /// The op of non-zero duration before this one in the order of its device.
  std::uint32_t turn_in_order(std::uint32_t op) const {
    std::uint32_t before = order.before(op);
    while (before != kNone && duration(before) == 0) before = order.before(before);
    return before;
  }
  void set_turn(std::uint32_t op, std::uint32_t after) {
    state.turn_after[op] = after;
    if (after != kNone) state.turn_before[after] = op;
  }
  void set_pending(std::uint32_t op) {
    const std::uint32_t waits = problem.pending[op] + (state.turn_after[op] != kNone ? 1 : 0);
    state.reset[op] = waits == 0 ? kNone : waits;
    state.work.ops[op].pending = state.reset[op];
    state.work.ops[op].ready = 0;
  }

  const Schedule& written_schedule() {
    for (std::uint32_t device = 0; device < problem.devices; ++device)
      if (order_changed[device] != 0) {
        order.write(problem, device, schedule.order[DeviceId{device}]);
        order_changed[device] = 0;
      }
    return schedule;
  }

  // --- making a change ---

  Change::Op& change_op(std::uint32_t op) {
    auto& ops = state.change.ops;
    if (state.changed[op] == 0) {
      state.changed[op] = 1;
      ops.push_back({op, state.work.ops[op].device, state.work.ops[op].device, state.turn_after[op], 0, false, 0, 0});
      return ops.back();
    }
    return *std::ranges::find(ops, op, &Change::Op::op);
  }
  void move(std::uint32_t op, std::uint32_t to) {
    Change::Op& change = change_op(op);
    state.device_work[change.new_device] -= duration(op);
    change.new_device = to;
    change.moved = to != change.old_device;
    state.work.ops[op].device = to;
    state.device_work[to] += duration(op);
    schedule.placement[OpId{problem.op_id(op)}] = DeviceId{to};
  }

  struct Step {
    std::uint32_t op, old_device, old_place, new_device;
  };
  /// The op goes behind `place` in the order of the device.
  void put(std::uint32_t op, std::uint32_t to, std::uint32_t place) {
    const std::uint32_t from = state.work.ops[op].device;
    steps.push_back({op, from, order.before(op), to});
    change_turn_behind(op);
    order.take_out(op, from);
    move(op, to);
    order.put(op, to, place);
    change_turn_behind(op);
    order_changed[from] = order_changed[to] = 1;
  }
  void change_turn_behind(std::uint32_t op) {
    for (std::uint32_t next = order.after(op); next != kNone; next = order.after(next))
      if (duration(next) > 0) {
        change_op(next);
        return;
      }
  }
  void find_turns() {
    if (!state.strict) return;
    auto& ops = state.change.ops;
    for (const Change::Op& op : ops)
      if (op.old_turn_after != kNone) state.turn_before[op.old_turn_after] = kNone;
    for (const Change::Op& op : ops) set_turn(op.op, duration(op.op) == 0 ? kNone : turn_in_order(op.op));
    // Some were only looked at.
    std::erase_if(ops, [&](const Change::Op& op) {
      const bool same = !op.moved && state.turn_after[op.op] == op.old_turn_after;
      if (same) state.changed[op.op] = 0;
      return same;
    });
    for (const Change::Op& op : ops) set_pending(op.op);
  }
  void undo() {
    auto& ops = state.change.ops;
    if (state.strict) {
      for (const Change::Op& op : ops)
        if (const std::uint32_t turn = state.turn_after[op.op]; turn != kNone) state.turn_before[turn] = kNone;
      for (; !steps.empty(); steps.pop_back()) {
        const Step& step = steps.back();
        order.take_out(step.op, step.new_device);
        order.put(step.op, step.old_device, step.old_place);
        order_changed[step.old_device] = order_changed[step.new_device] = 1;
      }
    }
    for (const Change::Op& op : ops) {
      if (op.moved) move(op.op, op.old_device);
      if (!state.strict) continue;
      set_turn(op.op, op.old_turn_after);
      set_pending(op.op);
    }
    forget();
    if (changed_priority) schedule.priority[OpId{*changed_priority}] = old_priority;
    if (changed_priority && had_no_priorities) schedule.priority = {};
    changed_priority.reset();
  }
  void forget() {
    for (const Change::Op& op : state.change.ops) state.changed[op.op] = 0;
    state.change.ops.clear();
    state.change.edits.clear();
    steps.clear();
  }

  DeltaResult run_change(Nanoseconds limit) {
    using Outcome = DeltaResult::Outcome;
    find_turns();
    pending = true;
    if (full()) {
      new_makespan = run_in_full(state.strict).count;
      if (new_makespan == detail::kDeadlock) return refuse({Outcome::deadlock, Nanoseconds{0}});
      if (new_makespan <= limit.count) return {Outcome::complete, Nanoseconds{new_makespan}};
      return refuse({Outcome::above, Nanoseconds{new_makespan}});
    }
    if (state.change.ops.empty()) {
      new_makespan = state.makespan;
      if (new_makespan <= limit.count) return {Outcome::complete, Nanoseconds{new_makespan}};
      return refuse({Outcome::above, Nanoseconds{new_makespan}});
    }
    detail::plan_restart(*all, state);
    const DeltaEnd end = detail::run_delta(*all, state, limit.count, false);
    new_makespan = end.makespan;
    switch (end.kind) {
      case DeltaEnd::Kind::complete:
        return {Outcome::complete, Nanoseconds{end.makespan}};
      case DeltaEnd::Kind::above:
        return refuse({Outcome::above, Nanoseconds{end.makespan}});
      case DeltaEnd::Kind::deadlock:
        break;
    }
    return refuse({Outcome::deadlock, Nanoseconds{0}});
  }
  DeltaResult refuse(DeltaResult result) {
    reject();
    return result;
  }
  void reject() {
    if (pending) undo();
    pending = false;
  }
  void accept() {
    assert(pending);
    if (full()) {
      keep_times();
    } else if (!state.change.ops.empty()) {
      detail::run_delta(*all, state, kNoLimit.count, true);
      detail::accept_run(*all, state);
    }
    state.makespan = new_makespan;
    forget();
    changed_priority.reset();
    pending = false;
  }

  // --- the default turn of a moved op ---

  struct Turn {
    std::int64_t time;
    std::uint32_t op;
  };
  /// When the op could start there at the earliest, were all else as it is; at most when it ends now. What it depends
  /// on starts before that, and what depends on it does not.
  std::int64_t turn_time(std::uint32_t op, std::uint32_t to) const {
    std::int64_t ready = 0;
    for (std::uint32_t i = all->first_input[op]; i < all->first_input[op + 1]; ++i) {
      const std::uint32_t tensor = all->input[i], producer = all->producer[tensor];
      const std::uint32_t from = state.work.ops[producer].device;
      const std::int64_t time = from == to ? 0 : problem.transfer_time(tensor, from, to);
      ready = std::max(ready, state.end_of(producer) + time);
    }
    for (std::uint32_t i = all->first_after[op]; i < all->first_after[op + 1]; ++i)
      ready = std::max(ready, state.end_of(all->after[i]));
    return std::min(ready, state.end_of(op));
  }
  bool before_turn(std::uint32_t other, const Turn& turn) const {
    if (taken_turn[other] != kNoTurn) return std::pair{taken_turn[other], other} < std::pair{turn.time, turn.op};
    return state.start_of(other) < turn.time;
  }
  /// The last op on the device before that turn, not counting ops of zero duration; kNone: none. `previous`: the last
  /// turn that was taken before it, if any.
  std::uint32_t place_for(const Turn& turn, std::uint32_t device, const Turn* previous) const {
    // From where the nearest snapshot saw the device, or from the previous turn where that is later.
    const auto later = std::ranges::upper_bound(state.snapshots, turn.time, {}, &Snapshot::head);
    std::uint32_t at = kNone;
    if (later != state.snapshots.begin() && !(later - 1)->last_on_device.empty())
      at = (later - 1)->last_on_device[device];
    if (at != kNone && (state.work.ops[at].device != device || taken_turn[at] != kNoTurn)) at = kNone;
    if (previous && (at == kNone || state.start_of(at) < previous->time)) at = previous->op;
    while (at != kNone && (duration(at) == 0 || !before_turn(at, turn))) at = order.before(at);
    std::uint32_t place = at;
    for (at = at == kNone ? order.first(device) : order.after(at); at != kNone; at = order.after(at)) {
      if (duration(at) == 0) continue;
      if (!before_turn(at, turn)) break;
      place = at;
    }
    return place;
  }

  std::shared_ptr<const detail::DeltaProblem> all;
  const detail::DenseProblem& problem;
  Schedule schedule;
  DeltaState state;
  detail::DeltaOrder order;
  std::vector<std::uint8_t> order_changed;  // by device: the schedule's own copy is behind
  std::vector<Step> steps;
  std::vector<Turn> turns;
  static constexpr std::int64_t kNoTurn = -1;
  std::vector<std::int64_t> taken_turn;  // by op, while turns are taken
  bool pending = false;
  std::int64_t new_makespan = 0;
  std::optional<std::size_t> changed_priority;
  double old_priority = 0;
  bool had_no_priorities = false;
  detail::Workspace workspace;
  detail::PeakFinder peak_finder;
  MemoryPeaks peaks;
};

DeltaSimulation::DeltaSimulation(const Problem& problem, Schedule schedule)
    : state_(std::make_unique<State>(std::make_shared<const detail::DeltaProblem>(problem), std::move(schedule))) {}
DeltaSimulation::DeltaSimulation(const DeltaSimulation& other) : state_(std::make_unique<State>(*other.state_)) {}
DeltaSimulation& DeltaSimulation::operator=(const DeltaSimulation& other) { return *this = DeltaSimulation{other}; }
DeltaSimulation::DeltaSimulation(DeltaSimulation&&) noexcept = default;
DeltaSimulation& DeltaSimulation::operator=(DeltaSimulation&&) noexcept = default;
DeltaSimulation::~DeltaSimulation() = default;

const Problem& DeltaSimulation::problem() const { return state_->problem.problem; }
const Schedule& DeltaSimulation::schedule() { return state_->written_schedule(); }
Nanoseconds DeltaSimulation::makespan() const {
  return Nanoseconds{state_->pending ? state_->new_makespan : state_->state.makespan};
}

DeltaResult DeltaSimulation::try_move(std::span<const OpId> ops, DeviceId to, Nanoseconds limit) {
  State& s = *state_;
  assert(!s.pending);
  const auto device = static_cast<std::uint32_t>(to.index());
  if (!s.state.strict) {
    for (const OpId op : ops)
      if (s.state.work.ops[s.position(op)].device != device) s.move(s.position(op), device);
    return s.run_change(limit);
  }
  s.turns.clear();
  for (const OpId op : ops)
    if (const std::uint32_t at = s.position(op); s.state.work.ops[at].device != device)
      s.turns.push_back({s.turn_time(at, device), at});
  std::ranges::sort(s.turns, {}, [](const State::Turn& turn) { return std::pair{turn.time, turn.op}; });
  s.taken_turn.resize(s.problem.ops, State::kNoTurn);
  const State::Turn* previous = nullptr;
  for (const State::Turn& turn : s.turns) {
    s.put(turn.op, device, s.place_for(turn, device, previous));
    s.taken_turn[turn.op] = turn.time;
    if (s.duration(turn.op) > 0) previous = &turn;
  }
  for (const State::Turn& turn : s.turns) s.taken_turn[turn.op] = State::kNoTurn;
  return s.run_change(limit);
}

DeltaResult DeltaSimulation::try_move(OpId op, DeviceId to, std::optional<OpId> behind, Nanoseconds limit) {
  State& s = *state_;
  assert(!s.pending && s.state.strict && behind != op);
  s.put(s.position(op), static_cast<std::uint32_t>(to.index()), behind ? s.position(*behind) : kNone);
  return s.run_change(limit);
}

DeltaResult DeltaSimulation::try_swap(OpId a, OpId b, Nanoseconds limit) {
  State& s = *state_;
  assert(!s.pending && s.state.strict);
  std::uint32_t first = s.position(a), second = s.position(b);
  const std::uint32_t device = s.state.work.ops[first].device;
  assert(s.state.work.ops[second].device == device);
  if (s.order.after(second) == first) std::swap(first, second);
  if (first != second) {
    const std::uint32_t place = s.order.before(first);
    if (s.order.before(second) != first) s.put(first, device, s.order.before(second));
    s.put(second, device, place);
  }
  return s.run_change(limit);
}

DeltaResult DeltaSimulation::try_priority(OpId op, double priority, Nanoseconds limit) {
  State& s = *state_;
  assert(!s.pending);
  s.had_no_priorities = s.schedule.priority.empty();
  if (s.had_no_priorities) s.schedule.priority.assign(s.problem.ops, 0);
  s.changed_priority = op.index();
  s.old_priority = s.schedule.priority[op];
  s.schedule.priority[op] = priority;
  return s.run_change(limit);
}

void DeltaSimulation::accept() { state_->accept(); }
void DeltaSimulation::reject() { state_->reject(); }

const MemoryPeaks& DeltaSimulation::peaks() {
  State& s = *state_;
  if (s.pending || s.full()) {
    s.run_in_full(true);
  } else {
    s.workspace.prepare_record(s.problem);
    detail::fill_record(*s.all, s.state, s.workspace.record);
  }
  s.peak_finder.find(s.problem, s.schedule.placement, s.workspace.record, makespan(), s.peaks);
  return s.peaks;
}

Timeline DeltaSimulation::timeline() {
  const MemoryPeaks& found = peaks();
  const State& s = *state_;
  Timeline timeline{};
  timeline.makespan = found.makespan;
  timeline.ops = s.workspace.record.ops;
  timeline.transfers = detail::recorded_transfers(s.problem, s.schedule.placement, s.workspace.record);
  timeline.devices.assign(problem().device_count(), {});
  timeline.channels.assign(problem().cluster().channel_count(), {});
  for (const DeviceId device : problem().devices()) {
    timeline.devices[device].peak = found.peak[device];
    timeline.devices[device].peak_at = found.peak_at[device];
  }
  detail::account_usage(problem(), s.schedule.placement, timeline);
  if (!found.fits) detail::diagnose_memory(problem(), s.schedule.placement, timeline);
  return timeline;
}

}  // namespace trainyard
