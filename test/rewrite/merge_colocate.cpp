#include "trainyard/rewrite/merge_colocate.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

namespace {

struct Edge {
  std::string from, to;
  std::int64_t bytes;
};

Graph graph_of(const std::vector<std::string>& names, const std::vector<Edge>& edges,
               const std::string& colocate = "") {
  GraphBuilder builder;
  for (const std::string& name : names) {
    OpSpec op{.name = name};
    if (colocate.find(name) != std::string::npos) op.colocate = "together";
    for (const Edge& edge : edges) {
      if (edge.from == name) op.outputs.push_back({name + "-" + edge.to, Bytes{edge.bytes}});
      if (edge.to == name) op.inputs.push_back(edge.from + "-" + name);
    }
    builder.add(std::move(op));
  }
  return std::move(builder).build();
}

std::string text(const Graph& graph, const OpGroups& groups) {
  std::string out;
  for (const auto& ops : groups.ops) {
    for (const OpId op : ops) out += graph.name(op);
    out += ' ';
  }
  return out;
}

}  // namespace

TEST_CASE("the op that sends the least joins its consumer, then the next") {
  // a -9-> b -1-> c -5-> d. Op d sends 0 and has no consumer, so it joins c. Then cd sends 0, less than b's 1,
  // and joins b.
  const Graph graph = graph_of({"a", "b", "c", "d"}, {{"a", "b", 9}, {"b", "c", 1}, {"c", "d", 5}});
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 4})) == "a b c d ");
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 3})) == "a b cd ");
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 2})) == "a bcd ");
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 1})) == "abcd ");
}

TEST_CASE("an op with several consumers joins the one that it sends most to, and kinds do not mix") {
  // a sends 1 + 2 = 3; b and c each send 10 to d. Op d sends 0 and joins b, the lower in a tie with c.
  const Graph graph = graph_of({"a", "b", "c", "d"}, {{"a", "b", 1}, {"a", "c", 2}, {"b", "d", 10}, {"c", "d", 10}});
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 3})) == "a bd c ");
  IdMap<OpId, std::uint32_t> kind(4, 0);
  kind[OpId{3}] = 1;  // d is the only op of its kind, so a joins c
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 3, .kind = kind})) == "ac b d ");
}

TEST_CASE("merging ends where every group sends enough") {
  // a -9-> b -1-> c -5-> d, and d produces 6 bytes that no op reads.
  const Graph graph = graph_of({"a", "b", "c", "d"}, {{"a", "b", 9}, {"b", "c", 1}, {"c", "d", 5}, {"d", "e", 6}});
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 1, .enough = Bytes{1}})) == "a b c d ");
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 1, .enough = Bytes{5}})) == "a bc d ");  // 1 + 5 - 1 = 5
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 1, .enough = Bytes{6}})) == "a bcd ");   // 5 + 6 - 5 = 6
}

TEST_CASE("no merge makes a group heavier than the limit, which doubles where too many are left") {
  // a -9-> b -1-> c -5-> d, each of weight 1. Op d joins c. Then cd may not join b, so b, which sends 1, joins a.
  const Graph graph = graph_of({"a", "b", "c", "d"}, {{"a", "b", 9}, {"b", "c", 1}, {"c", "d", 5}});
  MergeOptions options{.most_groups = 2, .weight = IdMap<OpId, std::int64_t>(4, 1), .heaviest = 2};
  CHECK(text(graph, merge_and_colocate(graph, options)) == "ab cd ");
  options.heaviest = 1;  // nothing fits; the limit doubles
  CHECK(text(graph, merge_and_colocate(graph, options)) == "ab cd ");
  options.heaviest = 3;  // like no limit
  CHECK(text(graph, merge_and_colocate(graph, options)) == "a bcd ");
  // Groups without neighbours: ab is full, so c starts another group.
  const Graph lonely = graph_of({"a", "b", "c", "d"}, {});
  CHECK(text(lonely, merge_and_colocate(lonely, {.most_groups = 2, .weight = options.weight, .heaviest = 2})) ==
        "ab cd ");
}

TEST_CASE("colocation groups stay together and lonely ops join each other") {
  const Graph graph = graph_of({"a", "b", "c", "d"}, {}, "ac");
  CHECK(text(graph, merge_and_colocate(graph)) == "ac b d ");
  CHECK(merge_and_colocate(graph, {.most_groups = 1}).ops.size() == 1);
}

TEST_CASE("the map and its way back agree on random graphs, and there are never more groups than asked for") {
  Random random{5};
  for (int round = 0; round < test::rounds(50); ++round) {
    std::vector<std::string> names;
    std::vector<Edge> edges;
    const auto count = static_cast<std::size_t>(random.between(1, 40));
    for (std::size_t i = 0; i < count; ++i) {
      names.push_back("n" + std::to_string(i));
      for (std::size_t j = 0; j < i; ++j)
        if (random.below(6) == 0) edges.push_back({names[j], names[i], random.between(0, 20)});
    }
    const Graph graph = graph_of(names, edges);
    const auto most = static_cast<std::size_t>(random.between(1, 20));
    MergeOptions options{.most_groups = most};
    if (round % 2 == 1) {
      options.weight = IdMap<OpId, std::int64_t>(graph.op_count());
      for (const OpId op : graph.ops()) options.weight[op] = random.between(0, 9);
      options.heaviest = 6;
    }
    const OpGroups groups = merge_and_colocate(graph, options);
    CHECK(groups.ops.size() <= most);
    std::size_t ops = 0;
    for (std::size_t group = 0; group < groups.ops.size(); ++group) {
      CHECK_FALSE(groups.ops[group].empty());
      for (const OpId op : groups.ops[group]) CHECK(groups.of[op] == group);
      ops += groups.ops[group].size();
    }
    CHECK(ops == count);
  }
}

TEST_CASE("labels, kinds and weights are of each op, and weights add up") {
  const Graph graph = graph_of({"a", "b", "c"}, {{"a", "b", 9}, {"b", "c", 1}});
  constexpr std::int64_t kHalf = std::int64_t{1} << 62;
  CHECK_THROWS_AS(groups_by(graph, {}), InputError);
  CHECK_THROWS_AS(merge_and_colocate(graph, {.kind = IdMap<OpId, std::uint32_t>(2)}), InputError);
  for (const auto& weight :
       {IdMap<OpId, std::int64_t>(4, 1), IdMap<OpId, std::int64_t>(3, kHalf), IdMap<OpId, std::int64_t>(3, -1)})
    CHECK_THROWS_AS(merge_and_colocate(graph, {.most_groups = 1, .weight = weight}), InputError);
  CHECK(text(graph, merge_and_colocate(graph, {.most_groups = 1, .weight = IdMap<OpId, std::int64_t>(3, kHalf / 2)})) ==
        "abc ");
}
