#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "trainyard/place/cut/cut_graph.hpp"
#include "trainyard/place/cut/moves.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kCoarsest = 100;
constexpr int kGrowths = 16;
constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

bool may_merge(const CutGraph& graph, std::uint32_t a, std::uint32_t b, std::int64_t most) {
  return graph.fixed[a] == graph.fixed[b] && graph.loads[a][0] + graph.loads[b][0] <= most &&
         graph.loads[a][1] + graph.loads[b][1] <= most;
}

std::vector<std::uint8_t> all_on_side_1(const CutGraph& graph) {
  std::vector<std::uint8_t> sides(graph.size());
  for (std::size_t v = 0; v < graph.size(); ++v) sides[v] = graph.fixed[v] == 0 ? 0 : 1;
  return sides;
}

std::vector<std::uint8_t> cut_coarsest(const CutGraph& graph, const CutTargets& targets, Random& random) {
  std::optional<CutQuality> best;
  std::vector<std::uint8_t> sides;
  const int growths = graph.size() > 20 * kCoarsest ? kGrowths / 8 : kGrowths;  // matchings found little to merge
  for (int attempt = 0; attempt <= growths; ++attempt) {
    CutMoves moves{graph, targets, all_on_side_1(graph)};
    if (attempt == 0)
      moves.fill_in_order();
    else
      moves.grow(attempt == 1 ? 0 : static_cast<std::uint32_t>(random.below(graph.size())));
    moves.improve();
    if (const CutQuality quality = moves.quality(); !best || quality < *best) {
      best = quality;
      sides = moves.sides();
    }
  }
  return sides;
}

}  // namespace

CoarserGraph merge_matching(const CutGraph& fine, std::int64_t most, Random& random) {
  std::vector<std::uint32_t> order(fine.size()), mate(fine.size(), kNone);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  random.shuffle(order);
  for (const std::uint32_t v : order) {
    if (mate[v] != kNone) continue;
    std::uint32_t heaviest = v;
    std::int64_t weight = -1;
    for (std::size_t e = fine.starts[v]; e < fine.starts[v + 1]; ++e) {
      const std::uint32_t other = fine.neighbours[e];
      if (mate[other] != kNone || !may_merge(fine, v, other, most)) continue;
      if (fine.weights[e] > weight || (fine.weights[e] == weight && other < heaviest)) {
        heaviest = other;
        weight = fine.weights[e];
      }
    }
    mate[v] = heaviest;
    mate[heaviest] = v;
  }

  CoarserGraph coarser{.graph = {}, .merged_into = std::vector<std::uint32_t>(fine.size(), kNone)};
  CutGraph& graph = coarser.graph;
  std::uint32_t count = 0;
  for (std::uint32_t v = 0; v < fine.size(); ++v)
    if (mate[v] >= v) coarser.merged_into[v] = coarser.merged_into[mate[v]] = count++;
  std::vector<std::uint32_t> edge_to(count, kNone);  // position of the edge to a vertex; valid from the row's start on
  for (std::uint32_t v = 0; v < fine.size(); ++v) {
    if (mate[v] < v) continue;
    const std::uint32_t self = coarser.merged_into[v];
    const auto row = static_cast<std::uint32_t>(graph.neighbours.size());
    graph.loads.push_back({});
    graph.bytes.push_back(0);
    graph.fixed.push_back(fine.fixed[v]);
    const std::array<std::uint32_t, 2> parts{v, mate[v]};
    for (std::size_t p = 0; p < (mate[v] == v ? 1U : 2U); ++p) {
      const std::uint32_t part = parts[p];
      graph.loads.back()[0] += fine.loads[part][0];
      graph.loads.back()[1] += fine.loads[part][1];
      graph.bytes.back() += fine.bytes[part];
      for (std::size_t e = fine.starts[part]; e < fine.starts[part + 1]; ++e) {
        const std::uint32_t other = coarser.merged_into[fine.neighbours[e]];
        if (other == self) continue;
        if (edge_to[other] == kNone || edge_to[other] < row) {
          edge_to[other] = static_cast<std::uint32_t>(graph.neighbours.size());
          graph.neighbours.push_back(other);
          graph.weights.push_back(0);
        }
        graph.weights[edge_to[other]] += fine.weights[e];
      }
    }
    graph.starts.push_back(static_cast<std::uint32_t>(graph.neighbours.size()));
  }
  return coarser;
}

std::vector<std::uint8_t> bisect(const CutGraph& graph, const CutTargets& targets, Random& random) {
  if (graph.size() == 0) return {};
  // A vertex of the coarsest graph has at most a twentieth of a side's load, so that the sides can be filled.
  const std::int64_t most = std::max<std::int64_t>(1, std::min(targets.loads[0], targets.loads[1]) / 20);
  std::vector<CoarserGraph> levels;
  const CutGraph* coarsest = &graph;
  while (coarsest->size() > kCoarsest) {
    CoarserGraph next = merge_matching(*coarsest, most, random);
    if (next.graph.size() * 20 > coarsest->size() * 19) break;
    levels.push_back(std::move(next));
    coarsest = &levels.back().graph;
  }
  std::vector<std::uint8_t> sides = cut_coarsest(*coarsest, targets, random);
  for (std::size_t level = levels.size(); level-- > 0;) {
    const CutGraph& fine = level == 0 ? graph : levels[level - 1].graph;
    std::vector<std::uint8_t> projected(fine.size());
    for (std::size_t v = 0; v < fine.size(); ++v) projected[v] = sides[levels[level].merged_into[v]];
    CutMoves moves{fine, targets, std::move(projected)};
    moves.improve();
    sides = moves.sides();
  }
  return sides;
}

}  // namespace trainyard
