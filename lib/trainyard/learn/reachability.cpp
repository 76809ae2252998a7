#include "trainyard/learn/reachability.hpp"

namespace trainyard::learn {

Reachability::Reachability(const RowLists& children) {
  const std::size_t nodes = children.rows(), words = (nodes + 63) / 64;
  std::vector<std::uint64_t> below(nodes * words, 0);
  const auto has = [&](std::size_t above, std::size_t node) {
    return (below[above * words + node / 64] >> (node % 64) & 1) != 0;
  };
  for (std::size_t node = 0; node < nodes; ++node)
    for (const std::uint32_t child : children[node])
      below[node * words + child / 64] |= std::uint64_t{1} << (child % 64);
  // In reverse order one round suffices if numbers are in topological order; cycles need further rounds.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t node = nodes; node-- > 0;)
      for (const std::uint32_t child : children[node])
        for (std::size_t word = 0; word < words; ++word) {
          const std::uint64_t before = below[node * words + word];
          const std::uint64_t after = before | below[child * words + word];
          changed = changed || before != after;
          below[node * words + word] = after;
        }
  }
  for (std::size_t node = 0; node < nodes; ++node) {
    for (std::size_t other = 0; other < nodes; ++other) {
      if (other == node) continue;
      const auto item = static_cast<std::uint32_t>(other);
      if (has(other, node)) ancestors.add_item(item);
      if (has(node, other)) descendants.add_item(item);
      if (!has(other, node) && !has(node, other)) parallel.add_item(item);
    }
    ancestors.end_row();
    descendants.end_row();
    parallel.end_row();
  }
}

}  // namespace trainyard::learn
