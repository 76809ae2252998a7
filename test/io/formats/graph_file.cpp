#include "trainyard/io/formats/graph_file.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "support/refusal.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"

using namespace trainyard;

TEST_CASE("a graph file has every field of an op") {
  const Graph graph = parse_graph(R"({"format": "trainyard-graph/1", "name": "toy",
 "ops": [
  {"name": "conv1", "type": "Conv", "phase": "backward", "layer": "stem", "signature": "Conv 3x3",
   "flops": 2.1e9, "bytes_accessed": 50331648, "parameter_bytes": 37632, "state_bytes": 75264, "workspace_bytes": 1e3,
   "device_kinds": ["gpu"], "colocate": "stem", "times_ns": {"gpu": 1200000, "cpu": 9000000},
   "inputs": ["image"], "outputs": [{"name": "conv1.out", "bytes": 25690112, "kept": true}], "after": ["load"]},
  {"name": "load", "outputs": [{"name": "image", "bytes": 602112.0}]}]})",
                                  "toy.json");
  GraphBuilder builder{"toy"};
  builder.add({.name = "conv1",
               .type = "Conv",
               .phase = Phase::backward,
               .layer = "stem",
               .signature = "Conv 3x3",
               .colocate = "stem",
               .flops = Flops{2.1e9},
               .bytes_accessed = Bytes{50331648},
               .parameter_bytes = Bytes{37632},
               .state_bytes = Bytes{75264},
               .workspace_bytes = Bytes{1000},
               .device_kinds = {"gpu"},
               .times = {{"gpu", Nanoseconds{1200000}}, {"cpu", Nanoseconds{9000000}}},
               .inputs = {"image"},
               .outputs = {{"conv1.out", Bytes{25690112}, true}},
               .after = {"load"}});
  builder.add({.name = "load", .outputs = {{"image", Bytes{602112}}}});
  CHECK(graph == std::move(builder).build());
}

TEST_CASE("what has its default is not written") {
  GraphBuilder builder{"two"};
  builder.add({.name = "a", .flops = Flops{2.1e9}, .outputs = {{"t", Bytes{5}}}});
  builder.add({.name = "b", .phase = Phase::update, .inputs = {"t"}, .after = {"a"}});
  std::ostringstream out;
  write_graph(std::move(builder).build(), out);
  CHECK(out.str() == R"({"format": "trainyard-graph/1", "name": "two",
 "ops": [
  {"name": "a", "flops": 2100000000, "outputs": [{"name": "t", "bytes": 5}]},
  {"name": "b", "phase": "update", "inputs": ["t"], "outputs": [], "after": ["a"]}
 ]}
)");
}

TEST_CASE("a collective is written and read, and what is wrong with one is named") {
  const std::string text = R"({"format": "trainyard-graph/1", "name": "sum",
 "ops": [
  {"name": "a", "outputs": [{"name": "t", "bytes": 5}]},
  {"name": "c", "outputs": [], "after": ["a"], "collective": {"kind": "all-gather", "bytes": 10}},
  {"name": "b", "inputs": ["t"], "outputs": [{"name": "u", "bytes": 10}], "after": ["c"]}
 ]}
)";
  const Graph graph = parse_graph(text, "sum.json");
  CHECK(*graph.collective(OpId{1}) == CollectiveTask{CollectiveKind::all_gather, Bytes{10}});
  std::ostringstream out;
  write_graph(graph, out);
  CHECK(out.str() == text);
  const auto message_of = [&](const std::string& collective) -> std::string {
    return test::finding_of([&] {
             parse_graph(R"({"format": "trainyard-graph/1", "ops": [{"name": "a", "outputs": []},
        {"name": "c", "outputs": [], "after": ["a"], "collective": )" +
                             collective + "}]}",
                         "bad.json");
           })
        .message;
  };
  CHECK(message_of(R"({"kind": "gather", "bytes": 1})") == "unknown collective \"gather\"");
  CHECK(message_of(R"({"bytes": 1})") == "a collective has no \"kind\"");
  CHECK(message_of(R"({"kind": "broadcast"})") == "a collective has no \"bytes\"");
}

TEST_CASE("an author's own keys are passed over") {
  const Graph graph = parse_graph(R"({"comment": "mine", "format": "trainyard-graph/1", "x-tool": {"a": [1, null]},
    "ops": [{"name": "a", "x-shape": [1, 2], "comment": 5, "outputs": []}]})",
                                  "mine.json");
  CHECK(graph.op_count() == 1);
  CHECK(graph.name().empty());
}

TEST_CASE("a byte order mark and Windows line ends do no harm") {
  CHECK(parse_graph(
            "\xEF\xBB\xBF{\"format\": \"trainyard-graph/1\",\r\n\"ops\": [{\"name\": \"a\",\r\n\"outputs\": []}]}\r\n",
            "dos")
            .op_count() == 1);
  const Finding finding = test::finding_of([&] {
    parse_graph("\xEF\xBB\xBF{\"format\": \"trainyard-graph/1\",\r\n\"ops\": [{\"name\": 5,\r\n\"outputs\": []}]}\r\n",
                "dos");
  });
  CHECK(finding.at.line == 2);
  CHECK(finding.at.source_line == "\"ops\": [{\"name\": 5,");
}

TEST_CASE("the place of a fault is that of its value, not of its line") {
  const Finding finding = test::finding_of([&] {
    parse_graph(
        "{\"format\": \"trainyard-graph/1\", \"ops\": [\n"
        "  {\"name\": \"\u00e9\u00e9\", \"outputs\": [{\"name\": \"t\", \"bytes\": -4096}]}]}",
        "graph.json");
  });
  CHECK(finding.at.line == 2);
  //   {"name": "ee", "outputs": [{"name": "t", "bytes": -4096}]}
  // 123456789...                                        ^ column 53
  CHECK(finding.at.column == 53);
  CHECK(finding.pointer == "/ops/0/outputs/0/bytes");
}

TEST_CASE("an escaped name is the name") {
  const Graph graph = parse_graph(R"({"format": "trainyard-graph/1", "ops": [
    {"name": "a\u0041\n\"\\\/", "outputs": [{"name": "\ud83d\ude00", "bytes": 1}]},
    {"na\u006de": "b", "inputs": ["\ud83d\ude00"], "outputs": []}]})",
                                  "escaped.json");
  CHECK(graph.name(OpId{0}) == "aA\n\"\\/");
  CHECK(graph.inputs(OpId{1}).size() == 1);
}

TEST_CASE("a hundred thousand ops are read and written") {
  GraphBuilder builder{"long"};
  for (int i = 0; i < 100'000; ++i)
    builder.add({.name = "op" + std::to_string(i),
                 .type = "MatMul",
                 .flops = Flops{1e9 + i},
                 .inputs = i ? std::vector<std::string>{"t" + std::to_string(i - 1)} : std::vector<std::string>{},
                 .outputs = {{"t" + std::to_string(i), Bytes{i}}}});
  const Graph graph = std::move(builder).build();
  std::ostringstream out;
  write_graph(graph, out);
  CHECK(parse_graph(out.str(), "long.json") == graph);
}
