#include "trainyard/graph/strong_components.hpp"

#include <algorithm>

namespace trainyard {

std::vector<std::size_t> strong_components(std::size_t count,
                                           const std::vector<std::pair<std::size_t, std::size_t>>& edges) {
  constexpr std::size_t kNew = static_cast<std::size_t>(-1);
  std::vector<std::vector<std::size_t>> successors(count);
  for (const auto& [from, to] : edges) successors[from].push_back(to);
  std::vector<std::size_t> index(count, kNew), low(count), next(count), component(count, kNew), open, path;
  std::size_t visited = 0, found = 0;
  for (std::size_t root = 0; root < count; ++root) {
    if (index[root] != kNew) continue;
    path.push_back(root);
    while (!path.empty()) {
      const std::size_t at = path.back();
      if (index[at] == kNew) {
        index[at] = low[at] = visited++;
        open.push_back(at);
      }
      if (next[at] < successors[at].size()) {
        const std::size_t to = successors[at][next[at]++];
        if (index[to] == kNew)
          path.push_back(to);
        else if (component[to] == kNew)
          low[at] = std::min(low[at], index[to]);
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[at]);
      if (low[at] != index[at]) continue;
      for (std::size_t member = kNew; member != at; open.pop_back()) component[member = open.back()] = found;
      ++found;
    }
  }
  for (std::size_t& each : component) each = found - 1 - each;  // components are found last first
  return component;
}

}  // namespace trainyard
