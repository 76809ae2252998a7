#include "trainyard/simulate/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"

namespace trainyard::detail {
namespace {

constexpr std::uint32_t kNoTransfer = ~std::uint32_t{0};

/// `holding.bytes` are held in [from, until).
struct Held {
  Nanoseconds from, until;
  Holding holding;
  std::uint32_t transfer = kNoTransfer;  // arrived: which one brought it

  /// In the order in which holdings of one instant are taken.
  std::tuple<Nanoseconds, std::uint32_t, std::uint32_t, OpId, Holding::Kind, TensorId> taking_order() const {
    const bool arrived = holding.kind == Holding::Kind::arrived;
    return {from, arrived, arrived ? transfer : 0, holding.op, holding.kind, holding.tensor};
  }
};

/// Everything but what is resident, by device.
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

  std::size_t next = 0;  // transfers come by tensor
  IdMap<DeviceId, Nanoseconds> last_use(problem.device_count());
  for (const TensorId tensor : graph.tensors()) {
    const OpId producer = graph.producer(tensor);
    const DeviceId home = placement[producer];
    const Span made = timeline.ops[producer];
    last_use[home] = made.end;
    const std::size_t first = next;
    while (next < timeline.transfers.size() && timeline.transfers[next].tensor == tensor) {
      const Transfer& transfer = timeline.transfers[next++];
      last_use[home] = std::max(last_use[home], transfer.end);
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

/// The first moment above the capacity, and who crossed the line.
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
    if (h.transfer == kNoTransfer)
      found.op = h.holding.op;
    else
      found.transfer = h.transfer;
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
  std::ranges::sort(found.largest, [](const Holding& a, const Holding& b) {
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
