#include "trainyard/cluster/routes.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "trainyard/core/sort_by.hpp"

namespace trainyard::detail {
namespace {

constexpr std::size_t kNoArc = std::numeric_limits<std::size_t>::max();
constexpr std::int64_t kUnreached = std::numeric_limits<std::int64_t>::max();

}  // namespace

PathFinder::PathFinder(const std::vector<Arc>& arcs, std::size_t vertices) : arcs_(arcs), leaving_(vertices) {
  for (std::size_t a = 0; a < arcs.size(); ++a) leaving_[arcs[a].from].push_back(a);
  for (auto& list : leaving_) sort_by(list, [&](std::size_t a) { return arcs[a].latency; });
}

std::vector<std::int64_t> PathFinder::least_latencies(std::size_t source) const {
  std::vector<std::int64_t> latency(leaving_.size(), kUnreached);
  using Entry = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  latency[source] = 0;
  open.emplace(0, source);
  std::size_t unreached = leaving_.size() - 1;
  std::int64_t farthest = kUnreached;  // once all are reached, an upper bound on all latencies
  while (!open.empty()) {
    const auto [reached, vertex] = open.top();
    open.pop();
    if (reached > latency[vertex]) continue;
    for (const std::size_t a : leaving_[vertex]) {
      const std::int64_t there = reached + arcs_[a].latency.count;
      if (there >= farthest) break;
      std::int64_t& known = latency[arcs_[a].to];
      if (there >= known) continue;
      if (known == kUnreached) --unreached;
      known = there;
      open.emplace(there, arcs_[a].to);
    }
    if (unreached == 0 && farthest == kUnreached) farthest = *std::ranges::max_element(latency);
  }
  return latency;
}

/// The arcs on paths of least latency, by vertex, in ascending order of links.
PathFinder::Adjacency PathFinder::tight_arcs(const std::vector<std::int64_t>& latency) const {
  Adjacency tight(leaving_.size());
  const std::int64_t farthest = *std::ranges::max_element(latency);
  for (std::size_t v = 0; v < leaving_.size(); ++v) {
    if (latency[v] == kUnreached) continue;
    for (const std::size_t a : leaving_[v]) {
      const std::int64_t there = latency[v] + arcs_[a].latency.count;
      if (there > farthest) break;
      if (there == latency[arcs_[a].to]) tight[v].push_back(a);
    }
    std::ranges::sort(tight[v], {}, [&](std::size_t a) { return std::pair{arcs_[a].link, a}; });
  }
  return tight;
}

/// The largest bottleneck bandwidth from the source to each vertex over paths of least latency.
std::vector<double> PathFinder::widest(const Adjacency& tight, std::size_t source) const {
  std::vector<double> width(tight.size(), 0);
  std::priority_queue<std::pair<double, std::size_t>> open;
  width[source] = std::numeric_limits<double>::infinity();
  open.emplace(width[source], source);
  while (!open.empty()) {
    const auto [reached, vertex] = open.top();
    open.pop();
    if (reached < width[vertex]) continue;
    for (const std::size_t a : tight[vertex]) {
      const double through = std::min(reached, arcs_[a].bandwidth.value);
      if (through > width[arcs_[a].to]) {
        width[arcs_[a].to] = through;
        open.emplace(through, arcs_[a].to);
      }
    }
  }
  return width;
}

/// Last arc of the path to each vertex: among the paths with a bandwidth of at least `width`, the one with the fewest
/// links, then the lowest ones.
std::vector<std::size_t> PathFinder::last_arcs(const Adjacency& tight, std::size_t source, double width) const {
  std::vector<std::size_t> last(tight.size(), kNoArc);
  std::vector<bool> reached(tight.size(), false);
  reached[source] = true;
  // One layer after another, with vertices ranked by the links on the path to them. The vertices that one egress leads
  // to share a rank.
  struct Ranked {
    std::size_t rank, vertex;
  };
  std::vector<Ranked> layer{{0, source}};
  using Found = std::tuple<std::size_t, std::size_t, std::size_t>;  // rank in the previous layer, link, arc
  std::vector<Found> found;
  while (!layer.empty()) {
    found.clear();
    for (const Ranked& at : layer)
      for (const std::size_t a : tight[at.vertex])
        if (!reached[arcs_[a].to] && arcs_[a].bandwidth.value >= width) found.emplace_back(at.rank, arcs_[a].link, a);
    std::ranges::sort(found);
    layer.clear();
    std::size_t rank = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& [before, link, a] = found[i];
      if (i > 0 && (before != std::get<0>(found[i - 1]) || link != std::get<1>(found[i - 1]))) ++rank;
      if (reached[arcs_[a].to]) continue;
      reached[arcs_[a].to] = true;
      last[arcs_[a].to] = a;
      layer.push_back({rank, arcs_[a].to});
    }
  }
  return last;
}

std::vector<std::vector<std::size_t>> PathFinder::paths(std::size_t source, std::size_t targets) const {
  const auto latency = least_latencies(source);
  const Adjacency tight = tight_arcs(latency);
  const auto width = widest(tight, source);
  std::map<double, std::vector<std::size_t>> last_of_width;
  std::vector<std::vector<std::size_t>> paths(targets);
  for (std::size_t target = 0; target < targets; ++target) {
    if (target == source || latency[target] == kUnreached) continue;
    const auto [known, added] = last_of_width.try_emplace(width[target]);
    if (added) known->second = last_arcs(tight, source, width[target]);
    std::vector<std::size_t>& path = paths[target];
    for (std::size_t vertex = target; vertex != source; vertex = arcs_[path.back()].from)
      path.push_back(known->second[vertex]);
    std::ranges::reverse(path);
  }
  return paths;
}

}  // namespace trainyard::detail
