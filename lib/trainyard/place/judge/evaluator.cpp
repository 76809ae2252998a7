#include "trainyard/place/judge/evaluator.hpp"

#include <algorithm>

namespace trainyard {

bool memory_may_bind(const Problem& problem) {
  const Graph& graph = problem.graph();
  // Floating point does not overflow here, and the margin is far beyond its error.
  double all = 0, workspace = 0;
  for (const OpId op : problem.ops()) {
    all += static_cast<double>(problem.resident_bytes(op).count);
    workspace = std::max(workspace, static_cast<double>(graph.workspace_bytes(op).count));
  }
  for (const TensorId tensor : graph.tensors()) all += static_cast<double>(graph.bytes(tensor).count);
  all = (all + workspace) * (1 + 1e-6);
  return std::ranges::any_of(problem.devices(), [&](DeviceId device) {
    const auto& capacity = problem.cluster().device(device).memory;
    return capacity && all > static_cast<double>(capacity->count);
  });
}

Bytes excess_of(const Problem& problem, const MemoryPeaks& peaks) {
  Bytes excess{0};
  if (peaks.fits) return excess;
  for (const DeviceId device : problem.devices())
    if (const auto& capacity = problem.cluster().device(device).memory; capacity && peaks.peak[device] > *capacity)
      excess += peaks.peak[device] - *capacity;
  return excess;
}

Outcome Evaluator::outcome(const Schedule& schedule) {
  if (!memory_binds_) return {Bytes{0}, simulation_.makespan(schedule)};
  const MemoryPeaks& peaks = simulation_.peaks(schedule);
  return {excess_of(problem(), peaks), peaks.makespan};
}

}  // namespace trainyard
