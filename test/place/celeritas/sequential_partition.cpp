#include "trainyard/place/celeritas/sequential_partition.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "support/random_problem.hpp"
#include "support/support.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

IdMap<OpId, RunWeight> ones(std::size_t ops) { return IdMap<OpId, RunWeight>(ops, {Nanoseconds{1}, Bytes{0}}); }

std::vector<OpId> in_order(const Graph& graph) { return graph.topological_order(); }

}  // namespace

TEST_CASE("a chain is cut where the fewest bytes cross") {
  // 0 -5- 1 -1- 2 -5- 3. Runs of two at most are cut at 1, and runs of three at most too, rather than 0 1 2 | 3 (5).
  const Problem problem = test::make_problem({{{1}, {1}, {1}, {1}}, {{0, 1, 5}, {1, 2, 1}, {2, 3, 5}}});
  const Graph& graph = problem.graph();
  const auto cut = [&](std::int64_t most) {
    return sequential_partition(graph, in_order(graph), ones(4), {Nanoseconds{most}, Bytes{0}});
  };
  CHECK(cut(1) == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(cut(2) == std::vector<std::size_t>{0, 2});
  CHECK(cut(3) == std::vector<std::size_t>{0, 2});
  CHECK(cut(4) == std::vector<std::size_t>{0});
}

TEST_CASE("a tensor counts once for every other run that reads it, and an op beyond the limit is a run of its own") {
  // Op 0's tensor of 4 is read by 1 and 2, op 1's of 3 by 2. Op 0 alone exceeds the limit.
  GraphBuilder builder;
  builder.add({.name = "0", .times = {{"cpu", Nanoseconds{9}}}, .outputs = {{"a", Bytes{4}}}});
  builder.add({.name = "1", .times = {{"cpu", Nanoseconds{1}}}, .inputs = {"a"}, .outputs = {{"b", Bytes{3}}}});
  builder.add({.name = "2", .times = {{"cpu", Nanoseconds{1}}}, .inputs = {"a", "b"}});
  const Graph graph = std::move(builder).build();
  auto weights = ones(3);
  weights[OpId{0}].time = Nanoseconds{9};
  // 0 | 1 2: 4.   0 | 1 | 2: 4 + 4 + 3.
  CHECK(sequential_partition(graph, in_order(graph), weights, {Nanoseconds{2}, Bytes{0}}) ==
        std::vector<std::size_t>{0, 1});
}

TEST_CASE("no cuts have fewer bytes between runs, and none as few has fewer runs: all cuts of random orders") {
  Random random{1971};
  for (int round = 0; round < test::rounds(200); ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, {.most_ops = 10});
    const Graph& graph = problem.graph();
    const std::vector<OpId>& order = graph.topological_order();
    IdMap<OpId, RunWeight> weights(problem.op_count());
    for (const OpId op : problem.ops()) {
      weights[op].time = Nanoseconds{random.between(0, 5)};
      weights[op].bytes = Bytes{random.between(0, 5)};
    }
    const RunWeight limit{Nanoseconds{random.between(3, 12)}, Bytes{random.between(3, 12)}};
    /// Bytes between runs, and the number of runs; nothing if a run exceeds the limit.
    const auto value = [&](std::size_t cuts) -> std::optional<std::pair<std::int64_t, std::size_t>> {
      IdMap<OpId, std::size_t> run(problem.op_count());
      std::size_t runs = 0, size = 0;
      RunWeight sum{};
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (i == 0 || (cuts >> (i - 1) & 1) != 0) {
          ++runs;
          size = 0;
          sum = {};
        }
        run[order[i]] = runs;
        sum.time += weights[order[i]].time;
        sum.bytes += weights[order[i]].bytes;
        if (++size > 1 && (sum.time > limit.time || sum.bytes > limit.bytes)) return std::nullopt;
      }
      std::int64_t bytes = 0;
      for (const TensorId tensor : graph.tensors()) {
        std::set<std::size_t> readers;
        for (const OpId reader : graph.consumers(tensor)) readers.insert(run[reader]);
        readers.erase(run[graph.producer(tensor)]);
        bytes += graph.bytes(tensor).count * static_cast<std::int64_t>(readers.size());
      }
      return std::pair{bytes, runs};
    };
    std::optional<std::pair<std::int64_t, std::size_t>> least;
    for (std::size_t cuts = 0; cuts < std::size_t{1} << (order.size() - 1); ++cuts)
      if (const auto each = value(cuts); each && (!least || *each < *least)) least = each;
    std::size_t found = 0;
    for (const std::size_t begin : sequential_partition(graph, order, weights, limit))
      if (begin > 0) found |= std::size_t{1} << (begin - 1);
    CHECK(value(found) == least);
  }
}
