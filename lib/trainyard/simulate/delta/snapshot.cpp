#include "trainyard/simulate/delta/snapshot.hpp"

#include <algorithm>

namespace trainyard::detail {
namespace {

/// The slot of a transfer in flight; none if it is not in flight.
Slot find_flying(const DeltaProblem& problem, const DeltaState& state, TensorPosition tensor, DeviceId to) {
  for (const Slot slot : problem.dense.slots(tensor))
    if (state.flying[slot].tensor == tensor && state.work.sending[slot].to == to) return slot;
  return Slot::none();
}

void clean(DeltaState& state, Position op) {
  state.work.ops[op].ready = Nanoseconds{0};
  state.work.ops[op].pending = state.reset[op];
}

/// Times before the head are equivalent for all remaining tasks.
Nanoseconds relative(Nanoseconds time, Nanoseconds head) { return std::max(time - head, Nanoseconds{0}); }

}  // namespace

void take_snapshot(const DeltaProblem& problem, const DeltaState& state, std::uint32_t committed, std::uint32_t task,
                   Nanoseconds head, Snapshot& snapshot) {
  const WalkState& work = state.work;
  snapshot.head = head;
  snapshot.head_task = task;
  snapshot.committed = committed;
  snapshot.frontier.clear();
  for (const Position op : state.frontier)
    snapshot.frontier.push_back({op, work.ops[op].pending, relative(work.ops[op].ready, head)});
  snapshot.flights.clear();
  for (const Slot slot : state.flights) {
    const DeltaState::Flying& flying = state.flying[slot];
    snapshot.flights.push_back({flying.tensor, flying.from, work.sending[slot].to, flying.ready - head});
  }
  snapshot.device_free.clear();
  for (const Nanoseconds free : work.device_free) snapshot.device_free.push_back(relative(free, head));
  snapshot.channels.clear();
  for (const ChannelId channel : problem.dense.problem.cluster().channels())
    if (work.channel_free[channel] > head) snapshot.channels.push_back({channel, work.channel_free[channel] - head});
  snapshot.work_done = state.work_done;
  if (state.strict) snapshot.last_on_device = state.last_on_device;
}

bool meets(const DeltaProblem& problem, const DeltaState& state, const Snapshot& old, std::uint32_t committed,
           Nanoseconds head) {
  if (old.committed != committed) return false;
  const WalkState& work = state.work;
  for (const DeviceId device : problem.dense.problem.devices())
    if (relative(work.device_free[device], head) != old.device_free[device]) return false;
  for (const Snapshot::Touched& touched : old.frontier) {
    const WalkState::Op& op = work.ops[touched.op];
    if (op.pending != touched.pending || relative(op.ready, head) != touched.ready) return false;
  }
  for (const Snapshot::Flight& flight : old.flights) {
    const Slot slot = find_flying(problem, state, flight.tensor, flight.to);
    if (slot.is_none() || state.flying[slot].from != flight.from) return false;
    if (state.flying[slot].ready - head != flight.ready) return false;
  }
  for (const Snapshot::Busy& busy : old.channels)
    if (work.channel_free[busy.channel] - head != busy.free) return false;
  const auto now_busy = std::ranges::count_if(work.channel_free, [&](Nanoseconds free) { return free > head; });
  return static_cast<std::size_t>(now_busy) == old.channels.size();
}

void clean_up_from(const DeltaProblem& problem, DeltaState& state, const Snapshot& met) {
  for (const Snapshot::Touched& touched : met.frontier) clean(state, touched.op);
  for (const Snapshot::Flight& flight : met.flights)
    state.flying[find_flying(problem, state, flight.tensor, flight.to)].tensor = TensorPosition::none();
}

void clean_up(const DeltaProblem& problem, DeltaState& state, std::uint32_t committed) {
  const DenseProblem& dense = problem.dense;
  const Snapshot& from = state.snapshots[state.change.restart];
  for (const Snapshot::Touched& touched : from.frontier) clean(state, touched.op);
  for (const Change::Op& op : state.change.ops) clean(state, op.op);
  if (state.change.restart == 0)
    for (const Position source : dense.sources) clean(state, source);
  const auto clean_tensor = [&](TensorPosition tensor) {
    for (const Edge edge : dense.graph.edges(tensor)) clean(state, dense.graph.consumer(edge));
    if (!state.flying.empty())
      for (const Slot slot : dense.slots(tensor)) state.flying[slot].tensor = TensorPosition::none();
  };
  for (const Snapshot::Flight& flight : from.flights) clean_tensor(flight.tensor);
  for (std::uint32_t i = from.committed; i < committed; ++i) {
    const Position op = state.committed[i];
    for (const TensorPosition tensor : dense.graph.outputs(op)) clean_tensor(tensor);
    dense.graph.each_before(op, [&](Position later) { clean(state, later); });
    if (const Position next = state.turn_before[op]; !next.is_none()) clean(state, next);
  }
  state.work.instant.clear();
}

}  // namespace trainyard::detail
