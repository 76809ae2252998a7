#pragma once

#include <algorithm>
#include <cstddef>

#include "trainyard/simulate/engine/dense_problem.hpp"
#include "trainyard/simulate/engine/walk_state.hpp"

namespace trainyard::detail {

inline void sort_destinations(WalkState& work) {
  if (work.destinations.size() > 1) std::ranges::sort(work.destinations, {}, &WalkState::Destination::device);
}

/// Merges the destinations whose route is a broadcasting egress alone: one transfer, listed at the lowest of them,
/// serves all.
inline void merge_broadcast(const DenseProblem& problem, WalkState& work, DeviceId from) {
  auto& destinations = work.destinations;
  std::size_t kept = 0;
  WalkState::Destination* first = nullptr;
  for (const WalkState::Destination& destination : destinations) {
    const Edge last_edge = work.sent[destination.device].last_edge;
    if (!problem.broadcast(from, destination.device)) {
      destinations[kept++] = destination;
    } else if (first == nullptr) {
      first = &destinations[kept++];
      *first = {destination.device, destination.first_edge, last_edge};
    } else {
      work.next_edge[first->last_edge] = destination.first_edge;
      first->last_edge = last_edge;
    }
  }
  destinations.resize(kept);
}

/// Finds the consumers of a tensor. Calls local(op) for each one on the producer's device. Leaves the transfers to the
/// other devices in work.destinations, by ascending destination, each with the chain of its consumers' edges.
template <class Local>
[[gnu::always_inline]] inline void find_destinations(const DenseProblem& problem, WalkState& work,
                                                     TensorPosition tensor, DeviceId device, const Local& local) {
  auto& destinations = work.destinations;
  destinations.clear();
  for (const Edge edge : problem.graph.edges(tensor)) {
    const Position op = problem.graph.consumer(edge);
    const DeviceId to = work.ops[op].device;
    if (to == device) {
      local(op);
      continue;
    }
    WalkState::Sent& sent = work.sent[to];
    work.next_edge[edge] = Edge::none();
    if (sent.tensor == tensor) {
      work.next_edge[sent.last_edge] = edge;
    } else {
      sent.tensor = tensor;
      destinations.push_back({to, edge, {}});
    }
    sent.last_edge = edge;
  }
  if (destinations.empty()) return;
  sort_destinations(work);
  if (problem.broadcasts) merge_broadcast(problem, work, device);
}

}  // namespace trainyard::detail
