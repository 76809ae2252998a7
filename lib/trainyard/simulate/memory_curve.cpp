#include "trainyard/simulate/memory_curve.hpp"

#include <algorithm>
#include <utility>

namespace trainyard {
namespace {

struct Change {
  Nanoseconds at;
  std::int64_t bytes;
};
using Changes = IdMap<DeviceId, std::vector<Change>>;

void hold(std::vector<Change>& changes, Nanoseconds from, Nanoseconds until, Bytes bytes) {
  if (from >= until || bytes.count == 0) return;
  changes.push_back({from, bytes.count});
  changes.push_back({until, -bytes.count});
}

/// The end of the tensor's last consumer on the device, or `floor` where that is later.
Nanoseconds last_use(const Problem& problem, const Placement& placement, const Timeline& timeline, TensorId tensor,
                     DeviceId device, Nanoseconds floor) {
  for (const OpId consumer : problem.graph().consumers(tensor))
    if (placement[consumer] == device) floor = std::max(floor, timeline.ops[consumer].end);
  return floor;
}

std::vector<MemoryPoint> running_sum(std::vector<Change> changes, Bytes resident, Nanoseconds makespan) {
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  std::vector<MemoryPoint> points{{Nanoseconds{0}, resident}};
  std::int64_t held = resident.count;
  for (std::size_t i = 0; i < changes.size();) {
    const Nanoseconds at = changes[i].at;
    if (at >= makespan) break;
    for (; i < changes.size() && changes[i].at == at; ++i) held += changes[i].bytes;
    if (points.back().at == at)
      points.back().held = Bytes{held};
    else if (points.back().held.count != held)
      points.push_back({at, Bytes{held}});
  }
  return points;
}

}  // namespace

IdMap<DeviceId, std::vector<MemoryPoint>> memory_curves(const Problem& problem, const Placement& placement,
                                                        const Timeline& timeline) {
  const Graph& graph = problem.graph();
  Changes changes(problem.device_count());
  IdMap<DeviceId, Bytes> resident(problem.device_count());
  IdMap<TensorId, Nanoseconds> last_sent(graph.tensor_count(), Nanoseconds{0});
  for (const Transfer& transfer : timeline.transfers) {
    last_sent[transfer.tensor] = std::max(last_sent[transfer.tensor], transfer.end);
    const auto arrive = [&](DeviceId device) {
      const Nanoseconds until = last_use(problem, placement, timeline, transfer.tensor, device, transfer.start);
      hold(changes[device], transfer.start, until, transfer.bytes);
    };
    arrive(transfer.to);
    for (const DeviceId device : transfer.also_to) arrive(device);
  }
  for (const OpId op : problem.ops()) {
    const DeviceId device = placement[op];
    const Span span = timeline.ops[op];
    resident[device] += problem.resident_bytes(op);
    hold(changes[device], span.start, span.end, graph.workspace_bytes(op));
    for (const TensorId tensor : graph.outputs(op)) {
      const Nanoseconds until = graph.kept(tensor) ? timeline.makespan
                                                   : last_use(problem, placement, timeline, tensor, device,
                                                              std::max(span.end, last_sent[tensor]));
      hold(changes[device], span.start, until, graph.bytes(tensor));
    }
  }
  IdMap<DeviceId, std::vector<MemoryPoint>> curves(problem.device_count());
  for (const DeviceId device : problem.devices())
    curves[device] = running_sum(std::move(changes[device]), resident[device], timeline.makespan);
  return curves;
}

}  // namespace trainyard
