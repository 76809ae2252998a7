#pragma once

#include <cstddef>
#include <vector>

#include "trainyard/core/compressed_rows.hpp"
#include "trainyard/core/id.hpp"
#include "trainyard/graph/topological_order.hpp"

namespace trainyard {

/// One cycle: each id is followed by a successor, and the lowest id is first. Empty if the graph has no cycle.
template <class IdType>
std::vector<IdType> find_cycle(const CompressedRows<IdType, IdType>& successors) {
  const std::size_t count = successors.rows();
  const auto sorted = topological_order<IdType>(count, successors_in(successors));
  if (sorted.size() == count) return {};
  std::vector<bool> done(count, false);
  for (const IdType id : sorted) done[id.index()] = true;
  // Every remaining id has a remaining predecessor, so walking backwards must close a cycle.
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
