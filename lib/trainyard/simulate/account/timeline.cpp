#include "trainyard/simulate/account/timeline.hpp"

#include <algorithm>
#include <cstddef>

#include "trainyard/problem/collective_run.hpp"
#include "trainyard/simulate/account/out_of_memory.hpp"
#include "trainyard/simulate/account/usage.hpp"

namespace trainyard::detail {
namespace {

/// The other devices that a broadcast to `to` serves, ascending.
std::vector<DeviceId> also_served(const DenseProblem& problem, const Placement& placement, TensorId tensor,
                                  DeviceId from, DeviceId to) {
  std::vector<DeviceId> served;
  if (!problem.broadcast(from, to)) return served;
  for (const OpId consumer : problem.problem.graph().consumers(tensor)) {
    const DeviceId device = placement[consumer];
    if (device != from && device != to && problem.broadcast(from, device)) served.push_back(device);
  }
  std::ranges::sort(served);
  served.erase(std::unique(served.begin(), served.end()), served.end());
  return served;
}

/// The members' parts in collectives, by tensor.
std::vector<Transfer> parts_of_collectives(const DenseProblem& problem, const Placement& placement,
                                           const Record& record) {
  const Graph& graph = problem.problem.graph();
  std::vector<Transfer> parts;
  for (const Record::Collective& run : record.collectives) {
    const Bytes sent = sent_by_each(*graph.collective(run.op), collective_devices(graph, run.op, placement).size());
    for (const CollectivePart& part : collective_parts(graph, run.op, placement))
      parts.push_back({part.tensor, part.from, part.to, sent, run.ready, run.start, run.end, {}});
  }
  std::ranges::sort(parts, {}, &Transfer::tensor);
  return parts;
}

}  // namespace

std::vector<Transfer> recorded_transfers(const DenseProblem& problem, const Placement& placement,
                                         const Record& record) {
  const Graph& graph = problem.problem.graph();
  const auto& slots = graph.consumer_rows().starts();
  std::size_t count = 0;
  for (const std::uint32_t transfers : record.transfer_count) count += transfers;
  const std::vector<Transfer> parts = parts_of_collectives(problem, placement, record);
  auto part = parts.begin();
  count += parts.size();
  std::vector<Transfer> result;
  result.reserve(count);
  for (const TensorId tensor : graph.tensors()) {
    const std::uint32_t transfers = record.transfer_count[tensor];
    const std::size_t first = result.size();
    if (part != parts.end() && part->tensor == tensor) result.push_back(*part++);
    if (transfers == 0) continue;
    const DeviceId from = placement[graph.producer(tensor)];
    for (std::uint32_t i = 0; i < transfers; ++i) {
      const Record::Transfer& sent = record.transfers[Slot{slots[tensor.index()] + i}];
      result.push_back({tensor, from, sent.to, graph.bytes(tensor), sent.ready, sent.start, sent.end, {}});
      if (problem.broadcasts) result.back().also_to = also_served(problem, placement, tensor, from, sent.to);
    }
    if (result.size() > first + 1)
      std::sort(result.begin() + static_cast<std::ptrdiff_t>(first), result.end(),
                [](const Transfer& a, const Transfer& b) { return a.to < b.to; });
  }
  return result;
}

Timeline recorded_timeline(const DenseProblem& problem, const Placement& placement, const Record& record,
                           const MemoryPeaks& peaks) {
  const Problem& whole = problem.problem;
  Timeline timeline{};
  timeline.makespan = peaks.makespan;
  timeline.ops = record.ops;
  timeline.transfers = recorded_transfers(problem, placement, record);
  timeline.devices.assign(problem.devices, {});
  timeline.channels.assign(problem.channels, {});
  for (const DeviceId device : whole.devices()) {
    timeline.devices[device].peak = peaks.peak[device];
    timeline.devices[device].peak_at = peaks.peak_at[device];
  }
  account_usage(whole, placement, timeline);
  if (!peaks.fits) diagnose_memory(whole, placement, timeline);
  return timeline;
}

}  // namespace trainyard::detail
