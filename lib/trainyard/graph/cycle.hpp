#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"

namespace trainyard {

/// Every id after all its predecessors; among those free to go, the lowest first (Kahn 1962, with a heap).
/// Shorter than `successors.rows()` where there is a cycle: then the ids on and behind cycles are missing.
template <class IdType>
std::vector<IdType> topological_sort(const CompressedRows<IdType, IdType>& successors) {
  const std::size_t count = successors.rows();
  std::vector<std::uint32_t> waiting_for(count, 0);
  for (const IdType id : IdRange<IdType>{count})
    for (const IdType next : successors[id]) ++waiting_for[next.index()];
  std::priority_queue<IdType, std::vector<IdType>, std::greater<>> free;
  for (const IdType id : IdRange<IdType>{count})
    if (waiting_for[id.index()] == 0) free.push(id);
  std::vector<IdType> order;
  order.reserve(count);
  while (!free.empty()) {
    const IdType id = free.top();
    free.pop();
    order.push_back(id);
    for (const IdType next : successors[id])
      if (--waiting_for[next.index()] == 0) free.push(next);
  }
  return order;
}

/// One cycle, each id before its successor and the lowest first; empty where there is none.
template <class IdType>
std::vector<IdType> find_cycle(const CompressedRows<IdType, IdType>& successors) {
  const std::size_t count = successors.rows();
  const auto sorted = topological_sort(successors);
  if (sorted.size() == count) return {};
  std::vector<bool> done(count, false);
  for (const IdType id : sorted) done[id.index()] = true;
  // Every id left has a predecessor left: walking backwards must come round.
  std::vector<IdType> predecessor(count, IdType::none());
  for (const IdType id : IdRange<IdType>{count})
    if (!done[id.index()])
      for (const IdType next : successors[id])
        if (!done[next.index()] && predecessor[next.index()].is_none()) predecessor[next.index()] = id;
  IdType at = IdType::none();
  for (const IdType id : IdRange<IdType>{count})
    if (!done[id.index()]) {
      at = id;
      break;
    }
  std::vector<bool> seen(count, false);
  while (!seen[at.index()]) {
    seen[at.index()] = true;
    at = predecessor[at.index()];
  }
  std::vector<IdType> cycle{at};
  for (IdType id = predecessor[at.index()]; id != at; id = predecessor[id.index()]) cycle.push_back(id);
  std::vector<IdType> forward(cycle.rbegin(), cycle.rend());
  std::size_t lowest = 0;
  for (std::size_t i = 1; i < forward.size(); ++i)
    if (forward[i] < forward[lowest]) lowest = i;
  std::vector<IdType> result;
  for (std::size_t i = 0; i < forward.size(); ++i) result.push_back(forward[(lowest + i) % forward.size()]);
  return result;
}

}  // namespace trainyard
