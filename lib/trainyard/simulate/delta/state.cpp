#include "trainyard/simulate/delta/state.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trainyard::detail {

DeltaState::DeltaState(const DeltaProblem& problem, Policy policy)
    : work(problem.dense),
      reset(problem.dense.ops),
      turn_after(problem.dense.ops),
      turn_before(problem.dense.ops),
      strict(policy == Policy::strict),
      device_work(problem.dense.devices),
      changed(problem.dense.ops),
      runs(problem.dense.ops),
      transfers(problem.dense.edges),
      channel_order(problem.dense.channels),
      committed(problem.dense.ops),
      new_runs(problem.dense.ops),
      new_transfers(problem.dense.edges),
      frontier_at(problem.dense.ops) {
  if (problem.links == DenseProblem::Links::queued) {
    work.prepare_sending(problem.dense);
    work.instant.reserve(problem.dense.ops);
    flying.resize(problem.dense.edges);
    flight_at.resize(problem.dense.edges);
  }
  if (strict) last_on_device.resize(problem.dense.devices);
  // Small graphs can afford fewer ops per snapshot than the 64 that suit large ones.
  const auto root = static_cast<std::uint32_t>(std::sqrt(static_cast<double>(problem.dense.ops)));
  spacing = std::clamp<std::uint32_t>(std::bit_floor(root / 2), 4, 64);
}

const TransferRun* DeltaState::transfer(const DeltaProblem& problem, TensorPosition tensor, DeviceId to) const {
  const DenseProblem& dense = problem.dense;
  for (const Slot slot : dense.slots(tensor))
    if (transfers[slot].to == to) return &transfers[slot];
  // A broadcast uses the slot of the lowest device that it serves.
  if (const DeviceId from = work.ops[problem.producer[tensor]].device; dense.broadcasts && dense.broadcast(from, to))
    for (const Slot slot : dense.slots(tensor))
      if (!transfers[slot].to.is_none() && dense.broadcast(from, transfers[slot].to)) return &transfers[slot];
  return nullptr;
}

}  // namespace trainyard::detail
