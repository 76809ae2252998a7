#pragma once

#include <algorithm>
#include <cstdint>

#include "trainyard/simulate/dense_problem.hpp"
#include "trainyard/simulate/workspace.hpp"

namespace trainyard::detail {

inline constexpr std::uint32_t kNoEdge = ~std::uint32_t{0};

inline void sort_destinations(Workspace& work) {
  if (work.destinations.size() > 1) std::ranges::sort(work.destinations, {}, &Workspace::Destination::device);
}

/// One transfer serves all whose route is a broadcasting egress alone: it stands at the lowest of them.
inline void merge_broadcast(const DenseProblem& problem, Workspace& work, std::uint32_t from) {
  auto& destinations = work.destinations;
  std::uint32_t kept = 0, first = kNoEdge;
  for (const auto& destination : destinations) {
    const std::uint32_t last_edge = work.sent[destination.device].last_edge;
    if (!problem.broadcast(from, destination.device)) {
      destinations[kept++] = destination;
    } else if (first == kNoEdge) {
      first = kept;
      destinations[kept++] = {destination.device, destination.first_edge, last_edge};
    } else {
      work.next_edge[destinations[first].last_edge] = destination.first_edge;
      destinations[first].last_edge = last_edge;
    }
  }
  destinations.resize(kept);
}

/// Sorts out who wants a tensor: calls local(op) for each consumer where it is made; leaves in work.destinations the
/// transfers that it needs, by ascending destination, each with the chain of its consumers' edges.
template <class Local>
[[gnu::always_inline]] inline void find_destinations(const DenseProblem& problem, Workspace& work, std::uint32_t tensor,
                                                     std::uint32_t device, const Local& local) {
  auto& destinations = work.destinations;
  destinations.clear();
  const std::uint32_t first = problem.first_consumer[tensor], last = problem.first_consumer[tensor + 1];
  for (std::uint32_t edge = first; edge < last; ++edge) {
    const auto op = static_cast<std::uint32_t>(problem.consumer[edge].index());
    const std::uint32_t to = work.ops[op].device;
    if (to == device) {
      local(op);
      continue;
    }
    Workspace::Sent& sent = work.sent[to];
    work.next_edge[edge] = kNoEdge;
    if (sent.tensor == tensor) {
      work.next_edge[sent.last_edge] = edge;
    } else {
      sent.tensor = tensor;
      destinations.push_back({to, edge, 0});
    }
    sent.last_edge = edge;
  }
  if (destinations.empty()) return;
  sort_destinations(work);
  if (problem.broadcasts) merge_broadcast(problem, work, device);
}

}  // namespace trainyard::detail
