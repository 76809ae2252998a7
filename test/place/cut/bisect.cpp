#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/support.hpp"
#include "trainyard/place/cut/cut_graph.hpp"
#include "trainyard/place/cut/moves.hpp"

using namespace trainyard;

namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

struct Edge {
  std::uint32_t a, b;
  std::int64_t weight;
};

/// Graph whose vertices have the same load on both sides and hold `bytes` each.
CutGraph graph_of(const std::vector<std::int64_t>& loads, const std::vector<Edge>& edges, std::int64_t bytes = 0) {
  CutGraph graph;
  for (std::uint32_t v = 0; v < loads.size(); ++v) {
    for (const Edge& edge : edges) {
      if (edge.a != v && edge.b != v) continue;
      graph.neighbours.push_back(edge.a == v ? edge.b : edge.a);
      graph.weights.push_back(edge.weight);
    }
    graph.starts.push_back(static_cast<std::uint32_t>(graph.neighbours.size()));
    graph.loads.push_back({loads[v], loads[v]});
    graph.bytes.push_back(bytes);
    graph.fixed.push_back(CutGraph::kFree);
  }
  return graph;
}

CutTargets halves(const CutGraph& graph, double imbalance = 0.05) {
  std::int64_t sum = 0;
  for (const auto& load : graph.loads) sum += load[0];
  return {.loads = {sum / 2, sum - sum / 2}, .bytes = {kNoLimit, kNoLimit}, .imbalance = imbalance};
}

CutQuality quality_of(const CutGraph& graph, const CutTargets& targets, const std::vector<std::uint8_t>& sides) {
  return CutMoves{graph, targets, sides}.quality();
}

CutGraph random_graph(Random& random, std::size_t size) {
  std::vector<std::int64_t> loads;
  std::vector<Edge> edges;
  for (std::uint32_t v = 0; v < size; ++v) {
    loads.push_back(random.between(1, 20));
    for (std::uint32_t other = 0; other < v; ++other)
      if (random.chance(0.35)) edges.push_back({other, v, random.between(1, 30)});
  }
  CutGraph graph = graph_of(loads, edges);
  for (std::size_t v = 0; v < size; ++v)
    if (random.chance(0.15)) graph.fixed[v] = static_cast<std::int8_t>(random.below(2));
  return graph;
}

}  // namespace

TEST_CASE("two cliques are cut at the one edge between them") {
  std::vector<Edge> edges{{2, 9, 3}};
  for (std::uint32_t clique = 0; clique < 2; ++clique)
    for (std::uint32_t a = 0; a < 6; ++a)
      for (std::uint32_t b = 0; b < a; ++b) edges.push_back({clique * 6 + b, clique * 6 + a, 2});
  const CutGraph graph = graph_of(std::vector<std::int64_t>(12, 10), edges);
  Random random{1};
  const auto sides = bisect(graph, halves(graph), random);
  CHECK(quality_of(graph, halves(graph), sides).cut == 3);
  CHECK(std::ranges::count(sides, 1) == 6);
}

TEST_CASE("a long ring is cut at two of its lightest edges, through all levels of merging") {
  // 1,200 vertices in a ring. Every 100th edge weighs 1 and the others 5: halves of 600, two cuts of 1.
  std::vector<Edge> edges;
  for (std::uint32_t v = 0; v < 1200; ++v) edges.push_back({v, (v + 1) % 1200, v % 100 == 99 ? 1 : 5});
  const CutGraph graph = graph_of(std::vector<std::int64_t>(1200, 1), edges);
  Random random{3};
  const CutQuality quality = quality_of(graph, halves(graph), bisect(graph, halves(graph), random));
  CHECK(quality.beyond == 0);
  CHECK(quality.cut == 2);
}

TEST_CASE("merging a matching keeps loads, bytes and the weight between what is not merged") {
  Random random{4};
  const CutGraph fine = random_graph(random, 60);
  const CoarserGraph coarser = merge_matching(fine, 1000, random);
  const CutGraph& graph = coarser.graph;
  REQUIRE(graph.size() < fine.size());
  std::vector<std::array<std::int64_t, 2>> loads(graph.size());
  std::int64_t between = 0, between_merged = 0;
  for (std::size_t v = 0; v < fine.size(); ++v) {
    const std::uint32_t to = coarser.merged_into[v];
    CHECK(graph.fixed[to] == fine.fixed[v]);
    for (std::size_t s = 0; s < 2; ++s) loads[to][s] += fine.loads[v][s];
    for (std::size_t e = fine.starts[v]; e < fine.starts[v + 1]; ++e)
      if (coarser.merged_into[fine.neighbours[e]] != to) between += fine.weights[e];
  }
  for (const std::int64_t weight : graph.weights) between_merged += weight;
  CHECK(loads == graph.loads);
  CHECK(between == between_merged);
}

TEST_CASE("cuts of small graphs are nearly always the best that there are") {
  Random random{5};
  std::int64_t found = 0, least = 0;
  for (int round = 0; round < test::rounds(150); ++round) {
    const CutGraph graph = random_graph(random, static_cast<std::size_t>(random.between(2, 11)));
    const CutTargets targets = halves(graph, 0.1);
    CutQuality best{.beyond = 1e9};
    for (std::uint32_t bits = 0; bits < 1U << graph.size(); ++bits) {
      std::vector<std::uint8_t> sides;
      bool allowed = true;
      for (std::size_t v = 0; v < graph.size(); ++v) {
        sides.push_back(static_cast<std::uint8_t>(bits >> v & 1));
        allowed =
            allowed && (graph.fixed[v] == CutGraph::kFree || graph.fixed[v] == static_cast<std::int8_t>(sides[v]));
      }
      if (allowed) best = std::min(best, quality_of(graph, targets, sides));
    }
    const auto sides = bisect(graph, targets, random);
    for (std::size_t v = 0; v < graph.size(); ++v)
      CHECK((graph.fixed[v] == CutGraph::kFree || graph.fixed[v] == static_cast<std::int8_t>(sides[v])));
    const CutQuality quality = quality_of(graph, targets, sides);
    CHECK(quality >= best);
    CHECK(quality.beyond <= best.beyond + 0.25);
    if (quality.beyond > best.beyond) continue;
    found += quality.cut;
    least += best.cut;
  }
  CHECK(found >= least);
  CHECK(found * 100 <= least * 103);
}

TEST_CASE("bytes are kept to their limits whatever it costs in weight") {
  // A chain of 8 that would be cut in its middle; only 2 fit on side 0.
  std::vector<Edge> edges;
  for (std::uint32_t v = 0; v + 1 < 8; ++v) edges.push_back({v, v + 1, v == 3 ? 1 : 9});
  const CutGraph graph = graph_of(std::vector<std::int64_t>(8, 1), edges, 10);
  CutTargets targets = halves(graph, 0.5);
  Random random{6};
  CHECK(quality_of(graph, targets, bisect(graph, targets, random)).cut == 1);
  targets.bytes = {20, 60};
  const auto sides = bisect(graph, targets, random);
  CHECK(std::ranges::count(sides, 0) == 2);
  CHECK(quality_of(graph, targets, sides).cut == 9);
}

TEST_CASE("a side on which everything takes longer gets less") {
  CutGraph graph = graph_of(std::vector<std::int64_t>(40, 10), {});
  for (auto& load : graph.loads) load[1] = 30;
  // Side 0 gets the share f with 400 f = 1200 (1 - f): f = 3/4.
  CutTargets targets{.loads = {300, 300}, .bytes = {kNoLimit, kNoLimit}};
  Random random{7};
  CHECK(std::ranges::count(bisect(graph, targets, random), 0) == 30);
}
