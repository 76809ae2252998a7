#include "trainyard/place/kit/analytic_plan.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "trainyard/place/kit/groups.hpp"

namespace trainyard {

AnalyticPlan::AnalyticPlan(const Problem& problem, bool insertion, int memory_percent, Checkpoint checkpoint)
    : problem_(problem),
      insertion_(insertion),
      checkpoint_(std::move(checkpoint)),
      able_(group_devices(problem)),
      memory_(problem, memory_percent),
      arrived_(problem.graph().tensor_count() * problem.device_count(), false) {}

std::span<const DeviceId> AnalyticPlan::candidates(OpId op) {
  const GroupId group = problem_.group(op);
  if (!assigned(group)) {
    memory_.narrow(group, able_[group], candidates_);
    memory_bound_ |= candidates_.size() < able_[group].size();
  } else {
    candidates_.assign(1, group_device_[group]);
  }
  return candidates_;
}

bool AnalyticPlan::may_go(OpId op, DeviceId device) {
  const GroupId group = problem_.group(op);
  if (assigned(group)) return group_device_[group] == device;
  if (!std::ranges::binary_search(able_[group], device)) return false;
  const bool room = memory_.excess_with(group, device) == Bytes{0};
  memory_bound_ |= !room;
  return room;
}

std::span<const DeviceId> AnalyticPlan::candidates(std::span<const GroupId> groups) {
  MemoryLedger::Need need{};
  for (const GroupId group : groups) need += memory_.need(group);
  candidates_.clear();
  for (const DeviceId device : able_[groups.front()]) {
    const auto able = [&](GroupId group) { return std::ranges::binary_search(able_[group], device); };
    if (!std::ranges::all_of(groups, able)) continue;
    if (memory_.excess_with(need, device) == Bytes{0})
      candidates_.push_back(device);
    else
      memory_bound_ = true;
  }
  return candidates_;
}

void AnalyticPlan::assign(GroupId group, DeviceId device) {
  assert(!assigned(group));
  group_device_[group] = device;
  memory_.take(group, device);
}

Nanoseconds AnalyticPlan::ready(OpId op, DeviceId device) const {
  const Graph& graph = problem_.graph();
  Nanoseconds latest{0};
  for (const TensorId tensor : graph.inputs(op)) {
    const OpId producer = graph.producer(tensor);
    const DeviceId from = placement_[producer];
    if (from.is_none()) continue;
    const Nanoseconds crossing = from == device ? Nanoseconds{0} : problem_.transfer_time(tensor, from, device);
    latest = std::max(latest, finish_[producer] + crossing);
  }
  for (const OpId earlier : graph.after(op)) latest = std::max(latest, finish_[earlier]);
  return latest;
}

Nanoseconds AnalyticPlan::occupied(OpId op, DeviceId device) const {
  const Nanoseconds duration = problem_.duration(op, device);
  return duration == Nanoseconds{0} ? duration : duration + problem_.cluster().device(device).gap;
}

AnalyticPlan::Slot AnalyticPlan::earliest_slot(OpId op, DeviceId device) const {
  const Nanoseconds start = calendars_[device].earliest(ready(op, device), occupied(op, device), insertion_);
  return {device, start, start + problem_.duration(op, device)};
}

AnalyticPlan::Slot AnalyticPlan::earliest_finish(OpId op) {
  Slot best{};
  for (const DeviceId device : candidates(op)) {
    const Slot slot = earliest_slot(op, device);
    if (best.device.is_none() || slot.finish < best.finish) best = slot;
  }
  return best;
}

void AnalyticPlan::hold_arrivals(OpId op, DeviceId device) {
  const Graph& graph = problem_.graph();
  if (graph.phase(op) == Phase::forward) return;
  for (const TensorId tensor : graph.inputs(op)) {
    const OpId producer = graph.producer(tensor);
    if (graph.phase(producer) != Phase::forward || placement_[producer] == device) continue;
    auto arrived = arrived_[tensor.index() * problem_.device_count() + device.index()];
    if (!arrived) memory_.hold(device, graph.bytes(tensor));
    arrived = true;
  }
}

void AnalyticPlan::place(OpId op, const Slot& slot) {
  checkpoint_(problem_.device_count());
  const GroupId group = problem_.group(op);
  if (!assigned(group)) assign(group, slot.device);
  assert(group_device_[group] == slot.device);
  hold_arrivals(op, slot.device);
  put(op, slot);
}

void AnalyticPlan::put(OpId op, const Slot& slot) {
  calendars_[slot.device].take(slot.start, occupied(op, slot.device));
  placement_[op] = slot.device;
  start_[op] = slot.start;
  finish_[op] = slot.finish;
}

AnalyticPlan::Slot AnalyticPlan::trial_slot(OpId op) const {
  const GroupId group = problem_.group(op);
  const auto able = assigned(group) ? std::span{&group_device_[group], 1} : able_[group];
  Slot best{};
  for (const DeviceId device : able) {
    const Slot slot = earliest_slot(op, device);
    if (best.device.is_none() || slot.finish < best.finish) best = slot;
  }
  return best;
}

void AnalyticPlan::try_out(OpId op, const Slot& slot) {
  checkpoint_(problem_.device_count());
  const GroupId group = problem_.group(op);
  tried_.emplace_back(op, !assigned(group));
  group_device_[group] = slot.device;
  put(op, slot);
}

void AnalyticPlan::end_trial() {
  for (const auto& [op, assigned] : tried_) {
    calendars_[placement_[op]].give_back(start_[op], occupied(op, placement_[op]));
    if (assigned) group_device_[problem_.group(op)] = DeviceId::none();
    placement_[op] = DeviceId::none();
    finish_[op] = Nanoseconds{0};
  }
  tried_.clear();
}

Schedule AnalyticPlan::schedule() const {
  return {.placement = placement_, .plan = Plan{*std::ranges::max_element(finish_), start_}};
}

}  // namespace trainyard
