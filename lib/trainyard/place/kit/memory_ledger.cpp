#include "trainyard/place/kit/memory_ledger.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace trainyard {
namespace {

constexpr Bytes kNoCapacity{std::numeric_limits<std::int64_t>::max()};

bool outlives_pass(const Graph& graph, OpId op, TensorId tensor) {
  return graph.kept(tensor) ||
         (graph.phase(op) == Phase::forward && std::ranges::any_of(graph.consumers(tensor), [&](OpId reader) {
            return graph.phase(reader) != Phase::forward;
          }));
}

Bytes beyond(const MemoryLedger::Need& used, Bytes capacity) {
  return capacity == kNoCapacity ? Bytes{0} : std::max(Bytes{0}, used.held + used.transient - capacity);
}

}  // namespace

MemoryLedger::Need& MemoryLedger::Need::operator+=(const Need& other) {
  held += other.held;
  transient = std::max(transient, other.transient);
  return *this;
}

MemoryLedger::MemoryLedger(const Problem& problem, int percent)
    : needs_(problem.group_count()), used_(problem.device_count()), capacity_(problem.device_count()) {
  const Graph& graph = problem.graph();
  for (const OpId op : problem.ops()) {
    Need need{problem.resident_bytes(op), graph.workspace_bytes(op)};
    for (const TensorId tensor : graph.outputs(op))
      (outlives_pass(graph, op, tensor) ? need.held : need.transient) += graph.bytes(tensor);
    needs_[problem.group(op)] += need;
  }
  for (const DeviceId device : problem.devices()) {
    const auto memory = problem.cluster().device(device).memory;
    capacity_[device] =
        memory ? Bytes{memory->count / 100 * percent + memory->count % 100 * percent / 100} : kNoCapacity;
  }
}

void MemoryLedger::take(GroupId group, DeviceId device) { used_[device] += needs_[group]; }

Bytes MemoryLedger::excess_with(const Need& need, DeviceId device) const {
  Need used = used_[device];
  used += need;
  return beyond(used, capacity_[device]);
}

Bytes MemoryLedger::total_excess() const {
  Bytes sum{0};
  for (const DeviceId device : used_.ids()) sum += beyond(used_[device], capacity_[device]);
  return sum;
}

void MemoryLedger::narrow(GroupId group, std::span<const DeviceId> able, std::vector<DeviceId>& with_room) const {
  with_room.clear();
  for (const DeviceId device : able)
    if (excess_with(group, device) == Bytes{0}) with_room.push_back(device);
  if (with_room.empty())
    with_room.push_back(
        *std::ranges::min_element(able, {}, [&](DeviceId device) { return excess_with(group, device); }));
}

}  // namespace trainyard
