#include "trainyard/simulate/delta_snapshot.hpp"

#include <algorithm>

namespace trainyard::detail {
namespace {

/// The slot of a transfer that is under way; kNone: it is not.
std::uint32_t find_flying(const DeltaProblem& problem, const DeltaState& state, std::uint32_t tensor,
                          std::uint32_t to) {
  const DenseProblem& dense = problem.dense;
  const std::uint32_t first = dense.slot(tensor);
  const std::uint32_t last = first + dense.first_consumer[tensor + 1] - dense.first_consumer[tensor];
  for (std::uint32_t slot = first; slot < last; ++slot)
    if (state.flying[slot].tensor == tensor && state.work.sending[slot].to == to) return slot;
  return kNone;
}

void clean(DeltaState& state, std::uint32_t op) {
  state.work.ops[op].ready = 0;
  state.work.ops[op].pending = state.reset[op];
}

}  // namespace

void take_snapshot(const DeltaProblem& problem, const DeltaState& state, std::uint32_t committed, std::uint32_t task,
                   std::int64_t head, Snapshot& snapshot) {
  const Workspace& work = state.work;
  const auto relative = [&](std::int64_t time) { return std::max(time - head, std::int64_t{0}); };
  snapshot.head = head;
  snapshot.head_task = task;
  snapshot.committed = committed;
  snapshot.frontier.clear();
  for (const std::uint32_t op : state.frontier)
    snapshot.frontier.push_back({op, work.ops[op].pending, relative(work.ops[op].ready)});
  snapshot.flights.clear();
  for (const std::uint32_t slot : state.flights) {
    const DeltaState::Flying& flying = state.flying[slot];
    snapshot.flights.push_back({flying.tensor, flying.from, work.sending[slot].to, flying.ready - head});
  }
  snapshot.device_free.clear();
  for (const std::int64_t free : work.device_free) snapshot.device_free.push_back(relative(free));
  snapshot.channels.clear();
  for (std::uint32_t channel = 0; channel < problem.dense.channels; ++channel)
    if (work.channel_free[channel] > head) snapshot.channels.push_back({channel, work.channel_free[channel] - head});
  snapshot.work_done = state.work_done;
  if (state.strict) snapshot.last_on_device = state.last_on_device;
}

bool meets(const DeltaProblem& problem, const DeltaState& state, const Snapshot& old, std::uint32_t committed,
           std::int64_t head) {
  if (old.committed != committed) return false;
  const Workspace& work = state.work;
  const auto relative = [&](std::int64_t time) { return std::max(time - head, std::int64_t{0}); };
  for (std::uint32_t device = 0; device < problem.dense.devices; ++device)
    if (relative(work.device_free[device]) != old.device_free[device]) return false;
  for (const Snapshot::Touched& touched : old.frontier) {
    const Workspace::OpState& op = work.ops[touched.op];
    if (op.pending != touched.pending || relative(op.ready) != touched.ready) return false;
  }
  for (const Snapshot::Flight& flight : old.flights) {
    const std::uint32_t slot = find_flying(problem, state, flight.tensor, flight.to);
    if (slot == kNone || state.flying[slot].from != flight.from) return false;
    if (state.flying[slot].ready - head != flight.ready) return false;
  }
  for (const Snapshot::Busy& busy : old.channels)
    if (work.channel_free[busy.channel] - head != busy.free) return false;
  const auto now_busy = std::ranges::count_if(work.channel_free, [&](std::int64_t free) { return free > head; });
  return static_cast<std::size_t>(now_busy) == old.channels.size();
}

void clean_up_from(const DeltaProblem& problem, DeltaState& state, const Snapshot& met) {
  for (const Snapshot::Touched& touched : met.frontier) clean(state, touched.op);
  for (const Snapshot::Flight& flight : met.flights)
    state.flying[find_flying(problem, state, flight.tensor, flight.to)].tensor = kNone;
}

void clean_up(const DeltaProblem& problem, DeltaState& state, std::uint32_t committed) {
  const DenseProblem& dense = problem.dense;
  const Snapshot& from = state.snapshots[state.change.restart];
  for (const Snapshot::Touched& touched : from.frontier) clean(state, touched.op);
  for (const Change::Op& op : state.change.ops) clean(state, op.op);
  if (state.change.restart == 0)
    for (const std::uint32_t source : dense.sources) clean(state, source);
  const auto clean_tensor = [&](std::uint32_t tensor) {
    const std::uint32_t first = dense.first_consumer[tensor], last = dense.first_consumer[tensor + 1];
    for (std::uint32_t edge = first; edge < last; ++edge)
      clean(state, static_cast<std::uint32_t>(dense.consumer[edge].index()));
    if (!state.flying.empty())
      for (std::uint32_t i = 0; i < last - first; ++i) state.flying[dense.slot(tensor) + i].tensor = kNone;
  };
  for (const Snapshot::Flight& flight : from.flights) clean_tensor(flight.tensor);
  for (std::uint32_t i = from.committed; i < committed; ++i) {
    const std::uint32_t op = state.committed[i];
    for (std::uint32_t tensor = dense.first_output[op]; tensor < dense.first_output[op + 1]; ++tensor)
      clean_tensor(tensor);
    if (dense.first_before != nullptr)
      for (std::uint32_t k = dense.first_before[op]; k < dense.first_before[op + 1]; ++k)
        clean(state, static_cast<std::uint32_t>(dense.before[k].index()));
    if (const std::uint32_t next = state.turn_before[op]; next != kNone) clean(state, next);
  }
  state.work.instant.clear();
}

}  // namespace trainyard::detail
