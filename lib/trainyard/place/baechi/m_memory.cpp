#include "trainyard/place/baechi/m_memory.hpp"

#include <algorithm>
#include <cstdint>

namespace trainyard {
namespace {

constexpr Bytes kAnyMemory{std::int64_t{1} << 62};  // more than any sum of sizes

}  // namespace

BaechiMemory::BaechiMemory(const Problem& problem, bool literal, int percent) : problem_(problem), literal_(literal) {
  const Graph& graph = problem.graph();
  for (const OpId op : problem.ops()) {
    Bytes kept{0};
    for (const TensorId tensor : graph.outputs(op)) {
      outputs_[op] += graph.bytes(tensor);
      if (graph.kept(tensor)) kept += graph.bytes(tensor);
    }
    passing_[op] = outputs_[op] - kept;
    if (literal) passing_[op] -= problem.resident_bytes(op);
    need_[op] = graph.workspace_bytes(op) + outputs_[op];
    resident_[problem.group(op)] += problem.resident_bytes(op);
    grouped_ |= !graph.colocation_group(op).empty();
  }
  for (const DeviceId device : problem.devices()) {
    const auto memory = problem.cluster().device(device).memory;
    capacity_[device] =
        memory ? Bytes{memory->count / 100 * percent + memory->count % 100 * percent / 100} : kAnyMemory;
  }
}

Bytes BaechiMemory::excess(OpId op, DeviceId device, bool placed) const {
  const Bytes need = placed || literal_ ? need_[op] : need_[op] + resident_[problem_.group(op)];
  return std::max(Bytes{0}, need - (capacity_[device] - used_[device]));
}

bool BaechiMemory::may_run(OpId op, DeviceId device, bool placed) const {
  const Bytes available = capacity_[device] - used_[device];
  if (placed) return need_[op] <= available;
  const Bytes resident = resident_[problem_.group(op)];
  if (literal_) return need_[op] <= available && (!grouped_ || resident <= available);
  return need_[op] + resident <= available;
}

void BaechiMemory::place(GroupId group, DeviceId device) {
  if (!literal_) used_[device] += resident_[group];
}

void BaechiMemory::run(OpId op, DeviceId device, bool has_readers) {
  used_[device] += outputs_[op];
  if (!has_readers && !literal_) used_[device] -= passing_[op];
}

void BaechiMemory::release(OpId op, DeviceId device) { used_[device] -= passing_[op]; }

}  // namespace trainyard
