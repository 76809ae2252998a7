#include "trainyard/rewrite/parse_groups.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard {
namespace {

struct ParseEdge {
  std::string from, to;
  std::int64_t bytes;
};

Graph parsed_graph(const std::vector<std::string>& names, const std::vector<ParseEdge>& edges,
                   const std::string& together = "") {
  GraphBuilder builder;
  for (const std::string& name : names) {
    OpSpec op{.name = name};
    if (together.find(name) != std::string::npos) op.colocate = "together";
    for (const ParseEdge& edge : edges) {
      if (edge.from == name) op.outputs.push_back({name + "-" + edge.to, Bytes{edge.bytes}});
      if (edge.to == name) op.inputs.push_back(edge.from + "-" + name);
    }
    builder.add(std::move(op));
  }
  return std::move(builder).build();
}

/// The groups as text, such as "ab c".
std::string parsed(const Graph& graph, std::size_t most, const IdMap<OpId, std::uint32_t>& kind = {}) {
  std::string out;
  for (const auto& ops : parse_groups(graph, most, kind).ops) {
    if (!out.empty()) out += ' ';
    for (const OpId op : ops) out += graph.name(op);
  }
  return out;
}

// a -9-> b -5-> d and a -1-> c -7-> d: no op is another's only neighbour.
const std::vector<ParseEdge> kDiamond{{"a", "b", 9}, {"a", "c", 1}, {"b", "d", 5}, {"c", "d", 7}};

TEST_CASE("each group keeps its best edge, and what these connect is one group") {
  const Graph graph = parsed_graph({"a", "b", "c", "d"}, kDiamond);
  CHECK(parsed(graph, 4) == "a b c d");
  CHECK(parsed(graph, 3) == "ab c d");  // 9 before 7
  CHECK(parsed(graph, 2) == "ab cd");   // a and b keep edge 9, c and d keep 7
  CHECK(parsed(graph, 1) == "abcd");    // the merged 1 + 5 is the only edge left
}

TEST_CASE("an op and its only reader, which reads nothing else, are one before any edge is weighed") {
  // a -1-> b -1-> c; c sends 9 to d and 1 to e.
  const Graph graph =
      parsed_graph({"a", "b", "c", "d", "e"}, {{"a", "b", 1}, {"b", "c", 1}, {"c", "d", 9}, {"c", "e", 1}});
  CHECK(parsed(graph, 3) == "abc d e");
  CHECK(parsed(graph, 2) == "abcd e");
}

TEST_CASE("kinds do not mix, colocation groups stay together, and ops without edges stay alone") {
  IdMap<OpId, std::uint32_t> kind(4, 0);
  kind[OpId{1}] = 1;
  CHECK(parsed(parsed_graph({"a", "b", "c", "d"}, kDiamond), 1, kind) == "acd b");
  CHECK(parsed(parsed_graph({"a", "b", "c", "d"}, kDiamond, "bc"), 3) == "a bc d");
  CHECK(parsed(parsed_graph({"a", "b", "c"}, {}), 1) == "a b c");
  CHECK(parsed(parsed_graph({"a", "b", "c"}, {}, "ac"), 9) == "ac b");
}

TEST_CASE("kinds of another graph are refused") {
  const Graph graph = parsed_graph({"a", "b", "c", "d"}, kDiamond);
  CHECK_THROWS_WITH_AS(parse_groups(graph, 1, IdMap<OpId, std::uint32_t>(3, 0)), "the kind has 3 entries for 4 ops",
                       InputError);
}

TEST_CASE(
    "groups of random graphs are connected, of one kind, and as few as asked for or without an edge between two") {
  Random random{8};
  for (int round = 0; round < test::rounds(60); ++round) {
    CAPTURE(round);
    std::vector<std::string> names;
    std::vector<ParseEdge> edges;
    const auto count = static_cast<std::size_t>(random.between(1, 40));
    IdMap<OpId, std::uint32_t> kind(count);
    std::set<std::pair<std::size_t, std::size_t>> joined;  // edges between ops of one kind
    for (std::size_t i = 0; i < count; ++i) {
      names.push_back("n" + std::to_string(i));
      kind[OpId{i}] = static_cast<std::uint32_t>(random.below(2));
      for (std::size_t j = 0; j < i; ++j) {
        if (random.below(6) > 0) continue;
        edges.push_back({names[j], names[i], random.between(0, 20)});
        if (kind[OpId{i}] == kind[OpId{j}]) joined.insert({j, i});
      }
    }
    const auto most = static_cast<std::size_t>(random.between(1, 20));
    const OpGroups groups = parse_groups(parsed_graph(names, edges), most, kind);
    std::size_t ops = 0;
    for (std::size_t group = 0; group < groups.ops.size(); ++group) {
      // Each group is connected: all its ops are reached from its first op.
      std::set<std::size_t> reached{groups.ops[group].front().index()};
      for (std::size_t before = 0; before < reached.size();) {
        before = reached.size();
        for (const auto& [a, b] : joined) {
          if (groups.of[OpId{a}] != group || groups.of[OpId{b}] != group) continue;
          if (reached.contains(a) || reached.contains(b)) reached.insert({a, b});
        }
      }
      CHECK(reached.size() == groups.ops[group].size());
      for (const OpId op : groups.ops[group]) {
        CHECK(groups.of[op] == group);
        CHECK(kind[op] == kind[groups.ops[group].front()]);
      }
      ops += groups.ops[group].size();
    }
    CHECK(ops == count);
    if (groups.ops.size() > most)
      for (const auto& [a, b] : joined) CHECK(groups.of[OpId{a}] == groups.of[OpId{b}]);
  }
}

}  // namespace
}  // namespace trainyard
