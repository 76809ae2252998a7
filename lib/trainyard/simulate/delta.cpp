#include "trainyard/simulate/delta.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/simulate/account/peaks.hpp"
#include "trainyard/simulate/account/timeline.hpp"
#include "trainyard/simulate/delta/accept.hpp"
#include "trainyard/simulate/delta/order.hpp"
#include "trainyard/simulate/delta/problem.hpp"
#include "trainyard/simulate/delta/restart.hpp"
#include "trainyard/simulate/delta/state.hpp"
#include "trainyard/simulate/delta/walk.hpp"
#include "trainyard/simulate/engine/choose_engine.hpp"

namespace trainyard {

using detail::Change;
using detail::DeltaEnd;
using detail::DeltaState;
using detail::kNone;
using detail::Position;
using detail::Snapshot;
using detail::TensorPosition;

struct DeltaSimulation::State {
  State(std::shared_ptr<const detail::DeltaProblem> p, Schedule s)
      : all(std::move(p)),
        problem(all->dense),
        schedule(std::move(s)),
        state(*all, schedule.policy),
        order(problem, schedule),
        order_changed(problem.devices, 0),
        workspace(problem) {
    for (const Position op : problem.positions()) state.work.ops[op].device = schedule.placement[problem.op_id(op)];
    for (const Position op : problem.positions()) {
      state.device_work[device(op)] += duration(op);
      if (state.strict && takes_turns(op)) set_turn(op, turn_in_order(op));
    }
    for (const Position op : problem.positions()) set_pending(op);
    if (full()) {
      state.makespan = run_in_full(state.strict);
      keep_times();
    } else {
      record_all();
    }
  }

  /// Whether every change is simulated in full.
  bool full() const {
    return schedule.policy == Policy::priority || schedule.urgent_links || problem.problem.runs_in_full();
  }
  Nanoseconds run_in_full(bool record) {
    return detail::run_engine(problem, written_schedule(), nullptr, record, workspace);
  }
  /// Stores the starts and ends of a full run under `strict`, from which turns are determined.
  void keep_times() {
    if (!state.strict) return;
    state.snapshots.assign(1, {});
    for (const OpId op : problem.problem.ops()) {
      const Span span = workspace.record.ops[op];
      state.runs[problem.position(op)] = {span.start, span.end, 0};
    }
  }

  void record_all() {
    record_from_start();
    // Snapshots may take about 100 bytes per op; if many ops wait at once, they are placed further apart.
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
    state.snapshots[0].work_done.assign(problem.devices, {});
    state.epoch_latest.assign(epochs, {});
    state.latest_before.assign(epochs + 1, {});
    for (auto& order_on_channel : state.channel_order) order_on_channel.clear();
    for (auto& transfer : state.transfers) transfer.to = DeviceId::none();
    state.change = {};
    state.change.first_match = kNone;
    detail::run_delta(*all, state, kNoLimit, true);
    state.shift = {};
    detail::accept_run(*all, state);
  }

  DeviceId device(Position op) const { return state.work.ops[op].device; }
  Nanoseconds duration(Position op) const { return problem.duration_of(op, device(op)); }
  bool takes_turns(Position op) const { return duration(op) > Nanoseconds{0}; }

  // --- turns ---

  /// The previous op of non-zero duration in the order of the device.
  Position turn_in_order(Position op) const {
    Position before = order.before(op);
    while (!before.is_none() && !takes_turns(before)) before = order.before(before);
    return before;
  }
  void set_turn(Position op, Position after) {
    state.turn_after[op] = after;
    if (!after.is_none()) state.turn_before[after] = op;
  }
  void set_pending(Position op) {
    const std::uint32_t waits = problem.pending[op] + (state.turn_after[op].is_none() ? 0 : 1);
    state.reset[op] = waits == 0 ? kNone : waits;
    state.work.ops[op].pending = state.reset[op];
    state.work.ops[op].ready = {};
  }

  const Schedule& written_schedule() {
    for (const DeviceId device : order_changed.ids())
      if (order_changed[device] != 0) {
        order.write(problem, device, schedule.order[device]);
        order_changed[device] = 0;
      }
    return schedule;
  }

  // --- making a change ---

  Change::Op& change_op(Position op) {
    auto& ops = state.change.ops;
    if (state.changed[op] == 0) {
      state.changed[op] = 1;
      ops.push_back({op, device(op), device(op), state.turn_after[op]});
      return ops.back();
    }
    return *std::ranges::find(ops, op, &Change::Op::op);
  }
  void move(Position op, DeviceId to) {
    Change::Op& change = change_op(op);
    state.device_work[change.new_device] -= duration(op);
    change.new_device = to;
    change.moved = to != change.old_device;
    state.work.ops[op].device = to;
    state.device_work[to] += duration(op);
    schedule.placement[problem.op_id(op)] = to;
  }

  struct Step {
    Position op, old_place;
    DeviceId old_device, new_device;
  };
  /// Moves the op behind `place` in the order of the device.
  void put(Position op, DeviceId to, Position place) {
    const DeviceId from = device(op);
    steps.push_back({op, order.before(op), from, to});
    change_turn_behind(op);
    order.take_out(op, from);
    move(op, to);
    order.put(op, to, place);
    change_turn_behind(op);
    order_changed[from] = order_changed[to] = 1;
  }
  void change_turn_behind(Position op) {
    for (Position next = order.after(op); !next.is_none(); next = order.after(next))
      if (takes_turns(next)) {
        change_op(next);
        return;
      }
  }
  void find_turns() {
    if (!state.strict) return;
    auto& ops = state.change.ops;
    for (const Change::Op& op : ops)
      if (!op.old_turn_after.is_none()) state.turn_before[op.old_turn_after] = Position::none();
    for (const Change::Op& op : ops) set_turn(op.op, takes_turns(op.op) ? turn_in_order(op.op) : Position::none());
    // Drop ops whose device and turn are unchanged.
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
        if (const Position turn = state.turn_after[op.op]; !turn.is_none()) state.turn_before[turn] = Position::none();
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
    if (changed_priority) schedule.priority[*changed_priority] = old_priority;
    if (changed_priority && had_no_priorities) schedule.priority = {};
    changed_priority.reset();
  }
  void forget() {
    for (const Change::Op& op : state.change.ops) state.changed[op.op] = 0;
    state.change.ops.clear();
    state.change.edits.clear();
    steps.clear();
  }

  // --- calls of the public functions ---

  std::string name(OpId op) const { return std::string{problem.problem.graph().name(op)}; }
  Position checked(OpId op) const {
    if (op.index() >= problem.ops)
      refuse("unknown-op", "the change names an op that graph '" + problem.problem.graph().name() + "' does not have",
             "ops are numbered from 0 to " + std::to_string(problem.ops - 1));
    return problem.position(op);
  }
  Position checked(OpId op, DeviceId to) const {
    const Position at = checked(op);
    if (to.index() >= problem.devices)
      refuse("unknown-device",
             "the change names a device that cluster '" + problem.problem.cluster().name() + "' does not have",
             "devices are numbered from 0 to " + std::to_string(problem.devices - 1));
    if (problem.duration_of(at, to) == Problem::kNever)
      refuse("no-device",
             "op '" + name(op) + "' cannot run on device '" + problem.problem.cluster().device(to).name + "'",
             "move it to one that can (Problem::can_run)");
    return at;
  }
  void check_strict() const {
    if (!state.strict)
      refuse("order", "the schedule has no order of ops to change",
             "start from a schedule of policy strict: in_started_order() makes one from a run");
  }
  void check_behind(OpId op, bool there) const {
    if (!there)
      refuse("order", "op '" + name(op) + "' is not another op on the same device",
             "name another op that is placed there");
  }

  DeltaResult run_change(Nanoseconds limit) {
    using Outcome = DeltaResult::Outcome;
    find_turns();
    pending = true;
    if (full() || state.change.ops.empty()) {
      new_makespan = full() ? run_in_full(state.strict) : state.makespan;
      if (new_makespan == detail::kDeadlock) return rejected({Outcome::deadlock, kLongestTime});
      if (new_makespan <= limit) return {Outcome::complete, new_makespan};
      return rejected({Outcome::above, new_makespan});
    }
    detail::plan_restart(*all, state);
    const DeltaEnd end = detail::run_delta(*all, state, limit, false);
    new_makespan = end.makespan;
    switch (end.kind) {
      case DeltaEnd::Kind::complete:
        return {Outcome::complete, end.makespan};
      case DeltaEnd::Kind::above:
        return rejected({Outcome::above, end.makespan});
      case DeltaEnd::Kind::deadlock:
        break;
    }
    return rejected({Outcome::deadlock, kLongestTime});
  }
  DeltaResult rejected(DeltaResult result) {
    reject();
    return result;
  }
  void reject() {
    if (pending) undo();
    pending = false;
  }
  void accept() {
    if (!pending) return;
    if (full()) {
      keep_times();
    } else if (!state.change.ops.empty()) {
      detail::run_delta(*all, state, kNoLimit, true);
      detail::accept_run(*all, state);
    }
    state.makespan = new_makespan;
    forget();
    changed_priority.reset();
    pending = false;
  }

  // --- the default turn of a moved op ---

  struct Turn {
    Nanoseconds time;
    Position op;
  };
  /// The earliest start of the op on the device if everything else stays, but at most its current end: the ops that it
  /// depends on start before that time, and those that depend on it do not.
  Nanoseconds turn_time(Position op, DeviceId to) const {
    Nanoseconds ready{0};
    for (const TensorPosition tensor : all->inputs[op]) {
      const Position producer = all->producer[tensor];
      const DeviceId from = device(producer);
      const Nanoseconds time = from == to ? Nanoseconds{0} : problem.transfer_time(tensor, from, to);
      ready = std::max(ready, state.end_of(producer) + time);
    }
    for (const Position earlier : all->after[op]) ready = std::max(ready, state.end_of(earlier));
    return std::min(ready, state.end_of(op));
  }
  bool before_turn(Position other, const Turn& turn) const {
    if (taken_turn[other] != kNoTurn) return std::pair{taken_turn[other], other} < std::pair{turn.time, turn.op};
    return state.start_of(other) < turn.time;
  }
  /// The last op of non-zero duration on the device before that turn, or none. `previous`: the last turn taken before
  /// it, if any.
  Position place_for(const Turn& turn, DeviceId to, const Turn* previous) const {
    // Start at the op that the nearest snapshot has for the device, or at the previous turn if that is later.
    const auto later = std::ranges::upper_bound(state.snapshots, turn.time, {}, &Snapshot::head);
    Position at;
    if (later != state.snapshots.begin() && !(later - 1)->last_on_device.empty()) at = (later - 1)->last_on_device[to];
    if (!at.is_none() && (device(at) != to || taken_turn[at] != kNoTurn)) at = Position::none();
    if (previous && (at.is_none() || state.start_of(at) < previous->time)) at = previous->op;
    while (!at.is_none() && (!takes_turns(at) || !before_turn(at, turn))) at = order.before(at);
    Position place = at;
    for (at = at.is_none() ? order.first(to) : order.after(at); !at.is_none(); at = order.after(at)) {
      if (!takes_turns(at)) continue;
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
  IdMap<DeviceId, std::uint8_t> order_changed;  // whether the schedule's copy is outdated
  std::vector<Step> steps;
  std::vector<Turn> turns;
  static constexpr Nanoseconds kNoTurn{-1};
  IdMap<Position, Nanoseconds> taken_turn;  // set while turns are assigned
  bool pending = false;
  Nanoseconds new_makespan;
  std::optional<OpId> changed_priority;
  double old_priority = 0;
  bool had_no_priorities = false;
  detail::Workspace workspace;
  detail::PeakFinder peak_finder;
  MemoryPeaks peaks;
};

DeltaSimulation::DeltaSimulation(const Problem& problem, Schedule schedule) {
  refuse_own_rule(schedule, "a simulation of changes (DeltaSimulation)");
  check_sizes(problem, schedule);
  check_placement(problem, schedule.placement);
  state_ = std::make_unique<State>(std::make_shared<const detail::DeltaProblem>(problem), std::move(schedule));
}
DeltaSimulation::DeltaSimulation(const DeltaSimulation& other) : state_(std::make_unique<State>(*other.state_)) {}
DeltaSimulation& DeltaSimulation::operator=(const DeltaSimulation& other) { return *this = DeltaSimulation{other}; }
DeltaSimulation::DeltaSimulation(DeltaSimulation&&) noexcept = default;
DeltaSimulation& DeltaSimulation::operator=(DeltaSimulation&&) noexcept = default;
DeltaSimulation::~DeltaSimulation() = default;

const Problem& DeltaSimulation::problem() const { return state_->problem.problem; }
const Schedule& DeltaSimulation::schedule() { return state_->written_schedule(); }
Nanoseconds DeltaSimulation::makespan() const {
  return state_->pending ? state_->new_makespan : state_->state.makespan;
}

DeltaResult DeltaSimulation::try_move(std::span<const OpId> ops, DeviceId to, Nanoseconds limit) {
  State& s = *state_;
  for (const OpId op : ops) s.checked(op, to);
  s.reject();
  const auto moves = [&](OpId op) { return s.device(s.problem.position(op)) != to; };
  if (!s.state.strict) {
    for (const OpId op : ops)
      if (moves(op)) s.move(s.problem.position(op), to);
    return s.run_change(limit);
  }
  s.turns.clear();
  for (const OpId op : ops)
    if (const Position at = s.problem.position(op); moves(op)) s.turns.push_back({s.turn_time(at, to), at});
  std::ranges::sort(s.turns, {}, [](const State::Turn& turn) { return std::pair{turn.time, turn.op}; });
  if (s.taken_turn.empty()) s.taken_turn.assign(s.problem.ops, State::kNoTurn);
  const State::Turn* previous = nullptr;
  for (const State::Turn& turn : s.turns) {
    s.put(turn.op, to, s.place_for(turn, to, previous));
    s.taken_turn[turn.op] = turn.time;
    if (s.takes_turns(turn.op)) previous = &turn;
  }
  for (const State::Turn& turn : s.turns) s.taken_turn[turn.op] = State::kNoTurn;
  return s.run_change(limit);
}

DeltaResult DeltaSimulation::try_move(OpId op, DeviceId to, std::optional<OpId> behind, Nanoseconds limit) {
  State& s = *state_;
  const Position at = s.checked(op, to), place = behind ? s.checked(*behind) : Position::none();
  s.check_strict();
  s.reject();
  if (behind) s.check_behind(*behind, place != at && s.device(place) == to);
  s.put(at, to, place);
  return s.run_change(limit);
}

DeltaResult DeltaSimulation::try_swap(OpId a, OpId b, Nanoseconds limit) {
  State& s = *state_;
  Position first = s.checked(a), second = s.checked(b);
  s.check_strict();
  s.reject();
  const DeviceId device = s.device(first);
  s.check_behind(b, s.device(second) == device);
  if (s.order.after(second) == first) std::swap(first, second);
  if (first != second) {
    const Position place = s.order.before(first);
    if (s.order.before(second) != first) s.put(first, device, s.order.before(second));
    s.put(second, device, place);
  }
  return s.run_change(limit);
}

DeltaResult DeltaSimulation::try_priority(OpId op, double priority, Nanoseconds limit) {
  State& s = *state_;
  s.checked(op);
  if (!std::isfinite(priority))
    refuse("not-a-number", "the priority of op '" + s.name(op) + "' is not a finite number",
           "give a finite number; a higher one is more urgent");
  s.reject();
  s.had_no_priorities = s.schedule.priority.empty();
  if (s.had_no_priorities) s.schedule.priority.assign(s.problem.ops, 0);
  s.changed_priority = op;
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
    s.workspace.record.prepare(s.problem);
    detail::fill_record(*s.all, s.state, s.workspace.record);
  }
  s.peak_finder.find(s.problem, s.schedule.placement, s.workspace.record, makespan(), s.peaks);
  return s.peaks;
}

Timeline DeltaSimulation::timeline() {
  const MemoryPeaks& found = peaks();
  return detail::recorded_timeline(state_->problem, state_->schedule.placement, state_->workspace.record, found);
}

}  // namespace trainyard
