#include "trainyard/simulate/account/out_of_memory.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "trainyard/core/sort_by.hpp"
#include "trainyard/simulate/account/holdings.hpp"

namespace trainyard::detail {
namespace {

/// Finds the first moment above the capacity, and the task that exceeded it.
void find_crossing(Bytes resident, Bytes capacity, std::vector<Held> held, OutOfMemory& found) {
  found.at = Nanoseconds{0};
  found.op = OpId::none();
  if (resident > capacity) return;
  std::vector<Held> by_until = held;
  std::ranges::sort(held, {}, &Held::taking_order);
  std::ranges::sort(by_until, {}, &Held::until);
  Bytes now = resident;
  std::size_t let_go = 0;
  for (const Held& h : held) {
    for (; let_go < by_until.size() && by_until[let_go].until <= h.from; ++let_go)
      now -= by_until[let_go].holding.bytes;
    now += h.holding.bytes;
    if (now <= capacity) continue;
    found.at = h.from;
    if (h.holding.kind == Holding::Kind::arrived)
      found.transfer = h.transfer;
    else
      found.op = h.holding.op;
    return;
  }
}

constexpr std::size_t kLargestShown = 5;

OutOfMemory diagnose(const Problem& problem, const Placement& placement, DeviceId device, std::span<const Held> held,
                     Bytes resident, const DeviceUse& use) {
  const Bytes capacity = *problem.cluster().device(device).memory;
  OutOfMemory found{};
  find_crossing(resident, capacity, {held.begin(), held.end()}, found);
  found.over = use.peak - capacity;
  found.resident = resident;
  for (const OpId op : problem.ops())
    if (placement[op] == device && problem.resident_bytes(op) > Bytes{0})
      found.largest.push_back({Holding::Kind::resident, op, TensorId::none(), problem.resident_bytes(op)});
  for (const Held& h : held) {
    if (use.peak_at < h.from || use.peak_at >= h.until) continue;
    found.largest.push_back(h.holding);
    if (h.holding.kind == Holding::Kind::produced) found.produced += h.holding.bytes;
    if (h.holding.kind == Holding::Kind::arrived) found.arrived += h.holding.bytes;
    if (h.holding.kind == Holding::Kind::workspace) found.workspace += h.holding.bytes;
  }
  sort_with(found.largest, [](const Holding& a, const Holding& b) {
    return std::tie(b.bytes, a.kind, a.op, a.tensor) < std::tie(a.bytes, b.kind, b.op, b.tensor);
  });
  if (found.largest.size() > kLargestShown) found.largest.resize(kLargestShown);
  return found;
}

}  // namespace

void diagnose_memory(const Problem& problem, const Placement& placement, Timeline& timeline) {
  const auto holdings = find_holdings(problem, placement, timeline);
  IdMap<DeviceId, Bytes> resident(problem.device_count());
  for (const OpId op : problem.ops()) resident[placement[op]] += problem.resident_bytes(op);
  for (const DeviceId device : problem.devices()) {
    DeviceUse& use = timeline.devices[device];
    const auto capacity = problem.cluster().device(device).memory;
    if (capacity && use.peak > *capacity)
      use.out_of_memory = diagnose(problem, placement, device, holdings[device], resident[device], use);
  }
}

}  // namespace trainyard::detail
