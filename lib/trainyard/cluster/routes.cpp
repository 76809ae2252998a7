#include "trainyard/cluster/routes.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

namespace trainyard::detail {
namespace {

constexpr std::size_t kFar = std::numeric_limits<std::size_t>::max();
constexpr std::int64_t kUnreached = std::numeric_limits<std::int64_t>::max();

using Adjacency = std::vector<std::vector<std::size_t>>;  // vertex -> arcs

std::vector<std::int64_t> least_latencies(const std::vector<Arc>& arcs, const Adjacency& leaving, std::size_t source) {
  std::vector<std::int64_t> latency(leaving.size(), kUnreached);
  using Entry = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  latency[source] = 0;
  open.emplace(0, source);
  while (!open.empty()) {
    const auto [reached, vertex] = open.top();
    open.pop();
    if (reached > latency[vertex]) continue;
    for (const std::size_t a : leaving[vertex])
      if (reached + arcs[a].latency.count < latency[arcs[a].to]) {
        latency[arcs[a].to] = reached + arcs[a].latency.count;
        open.emplace(latency[arcs[a].to], arcs[a].to);
      }
  }
  return latency;
}

/// The largest bottleneck from the source over arcs that keep the latency least.
std::vector<double> widest(const std::vector<Arc>& arcs, const Adjacency& tight, std::size_t source) {
  std::vector<double> width(tight.size(), 0);
  std::priority_queue<std::pair<double, std::size_t>> open;
  width[source] = std::numeric_limits<double>::infinity();
  open.emplace(width[source], source);
  while (!open.empty()) {
    const auto [reached, vertex] = open.top();
    open.pop();
    if (reached < width[vertex]) continue;
    for (const std::size_t a : tight[vertex]) {
      const double through = std::min(reached, arcs[a].bandwidth.value);
      if (through > width[arcs[a].to]) {
        width[arcs[a].to] = through;
        open.emplace(through, arcs[a].to);
      }
    }
  }
  return width;
}

}  // namespace

std::vector<std::vector<std::size_t>> best_paths(const std::vector<Arc>& arcs, std::size_t vertices, std::size_t source,
                                                 std::size_t targets) {
  Adjacency leaving(vertices), tight(vertices), tight_entering(vertices);
  for (std::size_t a = 0; a < arcs.size(); ++a) leaving[arcs[a].from].push_back(a);
  for (auto& list : leaving) std::ranges::stable_sort(list, {}, [&](std::size_t a) { return arcs[a].link; });

  const auto latency = least_latencies(arcs, leaving, source);
  for (std::size_t v = 0; v < vertices; ++v)
    for (const std::size_t a : leaving[v])
      if (latency[v] != kUnreached && latency[v] + arcs[a].latency.count == latency[arcs[a].to]) {
        tight[v].push_back(a);
        tight_entering[arcs[a].to].push_back(a);
      }
  const auto width = widest(arcs, tight, source);

  std::vector<std::vector<std::size_t>> paths(targets);
  std::vector<std::size_t> links_left(vertices);
  for (std::size_t target = 0; target < targets; ++target) {
    if (target == source || latency[target] == kUnreached) continue;
    const auto wide_enough = [&](std::size_t a) { return arcs[a].bandwidth.value >= width[target]; };
    std::ranges::fill(links_left, kFar);
    std::queue<std::size_t> open;
    links_left[target] = 0;
    open.push(target);
    while (!open.empty() && links_left[source] == kFar) {
      const std::size_t vertex = open.front();
      open.pop();
      for (const std::size_t a : tight_entering[vertex])
        if (wide_enough(a) && links_left[arcs[a].from] == kFar) {
          links_left[arcs[a].from] = links_left[vertex] + 1;
          open.push(arcs[a].from);
        }
    }
    for (std::size_t vertex = source; vertex != target;) {
      const auto next = std::ranges::find_if(tight[vertex], [&](std::size_t a) {
        return wide_enough(a) && links_left[arcs[a].to] != kFar && links_left[arcs[a].to] + 1 == links_left[vertex];
      });
      paths[target].push_back(*next);
      vertex = arcs[*next].to;
    }
  }
  return paths;
}

}  // namespace trainyard::detail
