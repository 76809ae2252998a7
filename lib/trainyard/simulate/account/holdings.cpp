#include "trainyard/simulate/account/holdings.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace trainyard::detail {

CompressedRows<DeviceId, Held> find_holdings(const Problem& problem, const Placement& placement,
                                             const Timeline& timeline) {
  const Graph& graph = problem.graph();
  std::vector<std::pair<DeviceId, Held>> holdings;
  const auto hold = [&](DeviceId device, const Held& held) {
    if (held.from < held.until && held.holding.bytes > Bytes{0}) holdings.emplace_back(device, held);
  };
  for (const OpId op : graph.ops())
    hold(placement[op], {timeline.ops[op].start,
                         timeline.ops[op].end,
                         {Holding::Kind::workspace, op, TensorId::none(), graph.workspace_bytes(op)}});

  std::size_t next = 0;  // transfers are sorted by tensor
  IdMap<DeviceId, Nanoseconds> last_use(problem.device_count());
  for (const TensorId tensor : graph.tensors()) {
    const OpId producer = graph.producer(tensor);
    const DeviceId home = placement[producer];
    Span made = timeline.ops[producer];
    last_use[home] = made.end;
    const std::size_t first = next;
    while (next < timeline.transfers.size() && timeline.transfers[next].tensor == tensor) {
      const Transfer& transfer = timeline.transfers[next++];
      last_use[home] = std::max(last_use[home], transfer.end);
      if (transfer.to == home) {  // the part of a member in its collective
        made.start = transfer.start;
        continue;
      }
      last_use[transfer.to] = transfer.end;
      for (const DeviceId device : transfer.also_to) last_use[device] = transfer.end;
    }
    for (const OpId consumer : graph.consumers(tensor)) {
      Nanoseconds& use = last_use[placement[consumer]];
      use = std::max(use, timeline.ops[consumer].end);
    }
    hold(home, {made.start,
                graph.kept(tensor) ? timeline.makespan : last_use[home],
                {Holding::Kind::produced, producer, tensor, graph.bytes(tensor)}});
    for (std::size_t i = first; i < next; ++i) {
      const Transfer& transfer = timeline.transfers[i];
      if (transfer.to == home) continue;
      const auto arrive = [&](DeviceId device) {
        hold(device, {transfer.start,
                      last_use[device],
                      {Holding::Kind::arrived, producer, tensor, graph.bytes(tensor)},
                      static_cast<std::uint32_t>(i)});
      };
      arrive(transfer.to);
      for (const DeviceId device : transfer.also_to) arrive(device);
    }
  }
  return {problem.device_count(), holdings};
}

}  // namespace trainyard::detail
