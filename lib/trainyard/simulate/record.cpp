#include "trainyard/simulate/record.hpp"

#include <algorithm>
#include <cstddef>

namespace trainyard::detail {
namespace {

/// The other devices that a broadcast to `to` serves, ascending.
std::vector<DeviceId> also_served(const DenseProblem& problem, const Placement& placement, TensorId tensor,
                                  DeviceId from, DeviceId to) {
  std::vector<DeviceId> served;
  const auto broadcast = [&](DeviceId device) {
    return problem.broadcast(static_cast<std::uint32_t>(from.index()), static_cast<std::uint32_t>(device.index()));
  };
  if (!broadcast(to)) return served;
  for (const OpId consumer : problem.problem.graph().consumers(tensor)) {
    const DeviceId device = placement[consumer];
    if (device != from && device != to && broadcast(device)) served.push_back(device);
  }
  std::ranges::sort(served);
  served.erase(std::unique(served.begin(), served.end()), served.end());
  return served;
}

}  // namespace

std::vector<Transfer> recorded_transfers(const DenseProblem& problem, const Placement& placement,
                                         const Workspace::Record& record) {
  const Graph& graph = problem.problem.graph();
  const auto& slots = graph.consumer_rows().starts();
  std::size_t count = 0;
  for (const std::uint32_t transfers : record.transfers_of) count += transfers;
  std::vector<Transfer> result;
  result.reserve(count);
  for (const TensorId tensor : graph.tensors()) {
    const std::uint32_t transfers = record.transfers_of[tensor.index()];
    if (transfers == 0) continue;
    const DeviceId from = placement[graph.producer(tensor)];
    const Bytes bytes = graph.bytes(tensor);
    const std::size_t first = result.size();
    for (std::uint32_t i = 0; i < transfers; ++i) {
      const auto& sent = record.transfers[slots[tensor.index()] + i];
      const DeviceId to{sent.to};
      result.push_back(
          {tensor, from, to, bytes, Nanoseconds{sent.ready}, Nanoseconds{sent.start}, Nanoseconds{sent.end}, {}});
      if (problem.broadcasts) result.back().also_to = also_served(problem, placement, tensor, from, to);
    }
    if (transfers > 1)
      std::sort(result.begin() + static_cast<std::ptrdiff_t>(first), result.end(),
                [](const Transfer& a, const Transfer& b) { return a.to < b.to; });
  }
  return result;
}

}  // namespace trainyard::detail
