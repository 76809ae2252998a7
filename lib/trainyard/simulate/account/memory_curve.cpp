#include "trainyard/simulate/account/memory_curve.hpp"

#include <algorithm>
#include <span>

#include "trainyard/simulate/account/holdings.hpp"

namespace trainyard {
namespace {

std::vector<MemoryPoint> running_sum(Bytes resident, std::span<const detail::Held> held, Nanoseconds makespan) {
  struct Change {
    Nanoseconds at;
    Bytes taken;
  };
  std::vector<Change> changes;
  for (const detail::Held& each : held) {
    changes.push_back({each.from, each.holding.bytes});
    changes.push_back({each.until, Bytes{0} - each.holding.bytes});
  }
  std::ranges::sort(changes, {}, &Change::at);
  std::vector<MemoryPoint> points{{Nanoseconds{0}, resident}};
  Bytes now = resident;
  for (std::size_t i = 0; i < changes.size();) {
    const Nanoseconds at = changes[i].at;
    if (at >= makespan) break;
    for (; i < changes.size() && changes[i].at == at; ++i) now += changes[i].taken;
    if (points.back().at == at)
      points.back().held = now;
    else if (points.back().held != now)
      points.push_back({at, now});
  }
  return points;
}

}  // namespace

IdMap<DeviceId, std::vector<MemoryPoint>> memory_curves(const Problem& problem, const Placement& placement,
                                                        const Timeline& timeline) {
  const auto held = detail::find_holdings(problem, placement, timeline);
  IdMap<DeviceId, Bytes> resident(problem.device_count());
  for (const OpId op : problem.ops()) resident[placement[op]] += problem.resident_bytes(op);
  IdMap<DeviceId, std::vector<MemoryPoint>> curves(problem.device_count());
  for (const DeviceId device : problem.devices())
    curves[device] = running_sum(resident[device], held[device], timeline.makespan);
  return curves;
}

}  // namespace trainyard
