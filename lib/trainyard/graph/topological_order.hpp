#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace trainyard {

/// Sorts ids 0 to `count` - 1 (Id<...> or integers) so that each comes after all its predecessors. Among the ids that
/// are free to go, the first by `before` goes first. `each_successor(id, visit)` calls visit(next) once per edge id ->
/// next. If the graph has a cycle, the ids on and behind cycles are missing from the result. O((V + E) log V).
///
/// A. B. Kahn: Topological sorting of large networks. CACM 5 (11), 1962; with a heap for the tie-break.
template <class IdType, class EachSuccessor, class Before = std::less<>>
std::vector<IdType> topological_order(std::size_t count, const EachSuccessor& each_successor, Before before = {}) {
  const auto index = [](IdType id) -> std::size_t {
    if constexpr (std::integral<IdType>)
      return id;
    else
      return id.index();
  };
  std::vector<std::uint32_t> awaited(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    each_successor(static_cast<IdType>(i), [&](IdType next) { ++awaited[index(next)]; });
  const auto later = [&](IdType a, IdType b) { return before(b, a); };
  std::priority_queue<IdType, std::vector<IdType>, decltype(later)> free(later);
  for (std::size_t i = 0; i < count; ++i)
    if (awaited[i] == 0) free.push(static_cast<IdType>(i));
  std::vector<IdType> order;
  order.reserve(count);
  while (!free.empty()) {
    order.push_back(free.top());
    free.pop();
    each_successor(order.back(), [&](IdType next) {
      if (--awaited[index(next)] == 0) free.push(next);
    });
  }
  return order;
}

/// The successors of `id` are the elements of rows[id].
template <class Rows>
auto successors_in(const Rows& rows) {
  return [&rows](auto id, const auto& visit) {
    for (const auto next : rows[id]) visit(next);
  };
}

}  // namespace trainyard
