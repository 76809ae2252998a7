#include "profiler/run/memory_of_trace.hpp"

#include <algorithm>

namespace trainyard {

IdMap<DeviceId, Bytes> peaks_of(const Problem& problem, const Placement& placement, const IdMap<OpId, Span>& ops,
                                const std::vector<Transfer>& transfers) {
  struct Change {
    Nanoseconds at;
    std::int64_t bytes;
  };
  const Graph& graph = problem.graph();
  IdMap<DeviceId, std::vector<Change>> changes(problem.device_count());
  IdMap<DeviceId, std::int64_t> resident(problem.device_count(), 0);
  const auto hold = [&](DeviceId device, Nanoseconds from, Nanoseconds until, Bytes bytes) {
    if (until <= from || bytes.count == 0) return;
    changes[device].push_back({from, bytes.count});
    changes[device].push_back({until, -bytes.count});
  };
  Nanoseconds last{0};
  for (const Span& span : ops) last = std::max(last, span.end);
  const auto end_of_use = [&](TensorId tensor, DeviceId device, Nanoseconds at_least) {
    for (const OpId consumer : graph.consumers(tensor))
      if (placement[consumer] == device) at_least = std::max(at_least, ops[consumer].end);
    return at_least;
  };
  IdMap<TensorId, Nanoseconds> sent(graph.tensor_count(), Nanoseconds{0});
  for (const Transfer& transfer : transfers) {
    sent[transfer.tensor] = std::max(sent[transfer.tensor], transfer.end);
    hold(transfer.to, transfer.start, end_of_use(transfer.tensor, transfer.to, transfer.end), transfer.bytes);
    for (const DeviceId to : transfer.also_to)
      hold(to, transfer.start, end_of_use(transfer.tensor, to, transfer.end), transfer.bytes);
  }
  for (const OpId op : graph.ops()) {
    const DeviceId device = placement[op];
    resident[device] += problem.resident_bytes(op).count;
    hold(device, ops[op].start, ops[op].end, graph.workspace_bytes(op));
    for (const TensorId tensor : graph.outputs(op)) {
      Nanoseconds until = end_of_use(tensor, device, std::max(ops[op].end, sent[tensor]));
      if (graph.kept(tensor)) until = last;
      hold(device, ops[op].start, until, graph.bytes(tensor));
    }
  }
  IdMap<DeviceId, Bytes> peaks(problem.device_count());
  for (const DeviceId device : problem.devices()) {
    auto& list = changes[device];
    std::sort(list.begin(), list.end(), [](const Change& a, const Change& b) {  // releases first
      return a.at != b.at ? a.at < b.at : a.bytes < b.bytes;
    });
    std::int64_t held = resident[device], most = held;
    for (const Change& change : list) most = std::max(most, held += change.bytes);
    peaks[device] = Bytes{most};
  }
  return peaks;
}

}  // namespace trainyard
