#include "trainyard/rewrite/coarsen.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard {
namespace {

/// A graph of ops 0, 1, ... with a one-byte tensor for each edge.
Graph graph_of(std::size_t ops, const std::vector<std::pair<std::size_t, std::size_t>>& edges) {
  GraphBuilder builder{"edges"};
  for (std::size_t op = 0; op < ops; ++op) {
    OpSpec spec{.name = std::to_string(op), .outputs = {{"t" + std::to_string(op), Bytes{1}}}};
    for (const auto& [from, to] : edges)
      if (to == op) spec.inputs.push_back("t" + std::to_string(from));
    builder.add(spec);
  }
  return std::move(builder).build();
}

std::vector<std::vector<OpId>> clusters(const Graph& graph, std::size_t target) {
  const std::size_t n = graph.op_count();
  const Coarsening made =
      coarsen(graph, {IdMap<OpId, Nanoseconds>(n, Nanoseconds{1}), IdMap<OpId, std::uint32_t>(n, 0)}, target);
  std::vector<std::vector<OpId>> all;
  for (std::size_t c = 0; c < made.members.rows(); ++c)
    all.emplace_back(made.members[ClusterOpId{c}].begin(), made.members[ClusterOpId{c}].end());
  return all;
}

TEST_CASE(
    "the batch of Pesto's figure 6 would close a cycle: one of its edges is merged, and not the other beside it") {
  // Merging A -> C and B -> D, with the edges A -> D and B -> C, would close the cycle AC -> BD -> AC.
  using Clusters = std::vector<std::vector<OpId>>;
  const OpId a{0}, b{1}, c{2}, d{3};
  const Graph figure = graph_of(4, {{0, 2}, {1, 3}, {0, 3}, {1, 2}});
  CHECK(clusters(figure, 3) == Clusters{{b}, {a, c}, {d}});
  CHECK(clusters(figure, 2) == Clusters{{b}, {a, c, d}});
  CHECK(clusters(graph_of(4, {{0, 2}, {1, 3}}), 2) == Clusters{{a, c}, {b, d}});
}

TEST_CASE("the many readers of one op, and the many that one op reads, are merged in few rounds") {
  constexpr std::size_t kMany = 3000;
  std::vector<std::pair<std::size_t, std::size_t>> out, in;
  for (std::size_t i = 0; i < kMany; ++i) out.emplace_back(0, i + 1), in.emplace_back(i, kMany);
  // All edges carry equal bytes: the first ones are merged until three clusters are left.
  const auto readers = clusters(graph_of(kMany + 1, out), 3), read = clusters(graph_of(kMany + 1, in), 3);
  CHECK(readers[0].size() == kMany - 1);
  CHECK(readers[1] == std::vector{OpId{kMany - 1}});
  CHECK(readers[2] == std::vector{OpId{kMany}});
  CHECK(read[0] == std::vector{OpId{kMany - 2}});
  CHECK(read[1] == std::vector{OpId{kMany - 1}});
  CHECK(read[2].size() == kMany - 1);
}

Graph random_graph(Random& random, std::size_t ops) {
  std::vector<OpSpec> specs(ops);
  for (std::size_t i = 0; i < ops; ++i) {
    specs[i].name = std::to_string(i);
    specs[i].outputs = {{"t" + std::to_string(i), Bytes{random.between(1, 100)}}};
    for (std::size_t k = 0; k < i; ++k) {
      if (random.chance(3.0 / static_cast<double>(ops))) specs[i].inputs.push_back("t" + std::to_string(k));
      if (random.chance(0.3 / static_cast<double>(ops))) specs[i].after.push_back(std::to_string(k));
    }
  }
  GraphBuilder builder{"random"};
  for (const OpSpec& spec : specs) builder.add(spec);
  return std::move(builder).build();
}

TEST_CASE("coarsening random graphs reaches the target without a cycle, every op in one cluster") {
  for (std::uint64_t seed = 0; seed < test::rounds(300U); ++seed) {
    CAPTURE(seed);
    Random random = Random::stream(5, seed);
    const std::size_t ops = 5 + random.below(80), target = 1 + random.below(20);
    const Graph graph = random_graph(random, ops);
    OpWeights weights{IdMap<OpId, Nanoseconds>(ops), IdMap<OpId, std::uint32_t>(ops, 0)};
    for (const OpId op : graph.ops()) weights.time[op] = Nanoseconds{random.between(0, 50)};
    const Coarsening coarsening = coarsen(graph, weights, target);
    CHECK(coarsening.members.rows() <= std::max(ops, target));
    CHECK((ops <= target || coarsening.members.rows() == target));
    CHECK(coarsening.members.size() == ops);
    // Clusters are numbered in topological order: no edge goes backwards.
    for (const OpId op : graph.ops()) {
      for (const TensorId tensor : graph.inputs(op))
        REQUIRE(coarsening.cluster[graph.producer(tensor)] <= coarsening.cluster[op]);
      for (const OpId earlier : graph.after(op)) REQUIRE(coarsening.cluster[earlier] <= coarsening.cluster[op]);
    }
  }
}

TEST_CASE("weights of another graph are refused") {
  CHECK_THROWS_WITH_AS(coarsen(graph_of(2, {{0, 1}}), {}, 1),
                       "weights with 0 times and 0 kinds do not fit a graph of 2 ops", InputError);
}

TEST_CASE("ops of different kinds are never merged") {
  Random random{9};
  const Graph graph = random_graph(random, 60);
  OpWeights weights{IdMap<OpId, Nanoseconds>(60, Nanoseconds{1}), IdMap<OpId, std::uint32_t>(60)};
  for (const OpId op : graph.ops()) weights.kind[op] = static_cast<std::uint32_t>(random.below(3));
  const Coarsening coarsening = coarsen(graph, weights, 1);
  CHECK(coarsening.members.rows() >= 3);
  for (std::size_t c = 0; c < coarsening.members.rows(); ++c)
    for (const OpId op : coarsening.members[ClusterOpId{c}])
      CHECK(weights.kind[op] == weights.kind[coarsening.members[ClusterOpId{c}].front()]);
}

}  // namespace
}  // namespace trainyard
