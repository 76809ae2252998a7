#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/io/chakra/chakra_graph.hpp"
#include "trainyard/io/chakra/chakra_schedule.hpp"
#include "trainyard/io/formats/cluster_file.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/simulate/simulate.hpp"

using namespace trainyard;
using test::contains;
using NodeType = ChakraNode::Type;

namespace {

ChakraNode chakra_compute(std::uint64_t id, std::string name, std::vector<std::uint64_t> data, std::uint64_t us,
                          std::int64_t flops) {
  return {.id = id,
          .name = std::move(name),
          .type = NodeType::compute,
          .data = std::move(data),
          .duration = us,
          .flops = flops,
          .accessed_bytes = 8192};
}
ChakraNode chakra_message(NodeType type, std::uint64_t id, std::string name, std::vector<std::uint64_t> data,
                          std::int64_t from, std::int64_t to, std::int64_t tag) {
  return {.id = id,
          .name = std::move(name),
          .type = type,
          .data = std::move(data),
          .tag = tag,
          .bytes = 4096,
          .source = from,
          .destination = to};
}
ChakraNode chakra_all_reduce(std::uint64_t id, std::vector<std::uint64_t> data, std::int64_t bytes = 2048) {
  return {
      .id = id, .name = "ar", .type = NodeType::collective, .data = std::move(data), .bytes = bytes, .collective = 0};
}

/// Two pipeline ranks: forward on rank 0, an activation to rank 1, forward and backward there, a gradient back,
/// backward on rank 0. Both ranks all-reduce.
std::vector<ChakraRank> two_ranks() {
  return {{0,
           "two.0.et",
           {"0.0.4",
            {chakra_compute(1, "f", {}, 10, 4096), chakra_message(NodeType::send, 2, "act", {1}, 0, 1, 7),
             chakra_message(NodeType::receive, 3, "grad", {}, 1, 0, 8), chakra_compute(4, "b", {1, 3}, 20, 8192),
             chakra_all_reduce(5, {4})}}},
          {1,
           "two.1.et",
           {"0.0.4",
            {chakra_message(NodeType::receive, 1, "act", {}, 0, 1, 7), chakra_compute(2, "fb", {1}, 30, 8192),
             chakra_message(NodeType::send, 3, "grad", {2}, 1, 0, 8), chakra_all_reduce(4, {2})}}}};
}

const char* const kRankZero =
    "070a05302e302e343908011201661804380a520e0a0969735f6370755f6f70d80100520c0a076e756d5f6f707348802052100a0b"
    "74656e736f725f73697a65688040560802120361637418052a0101520e0a0969735f6370755f6f70d80100520c0a08636f6d6d5f"
    "7372633800520c0a08636f6d6d5f6473743801520c0a08636f6d6d5f7461673807520e0a09636f6d6d5f73697a65488020540803"
    "1204677261641806520e0a0969735f6370755f6f70d80100520c0a08636f6d6d5f7372633801520c0a08636f6d6d5f6473743800"
    "520c0a08636f6d6d5f7461673808520e0a09636f6d6d5f73697a654880203d080412016218042a0201033814520e0a0969735f63"
    "70755f6f70d80100520c0a076e756d5f6f707348804052100a0b74656e736f725f73697a656880403a08051202617218072a0104"
    "520e0a0969735f6370755f6f70d80100520d0a09636f6d6d5f747970654800520e0a09636f6d6d5f73697a65488010";

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string refused_ranks(std::vector<ChakraRank> ranks) {
  return test::refusal_text([&] { chakra_graph(std::move(ranks), "folder"); });
}
std::string refused_bytes(const std::string& bytes) {
  return test::refusal_text([&] { chakra_graph({0, "x.0.et", parse_chakra(bytes, "x.0.et")}); });
}

}  // namespace

TEST_CASE("Chakra's messages have the bytes of its protocol buffers, with the integer kinds that ASTRA-sim reads") {
  CHECK(chakra_messages(two_ranks()[0].trace) == bytes_of_hex(kRankZero));
  CHECK(parse_chakra(bytes_of_hex(kRankZero), "two.0.et").nodes.size() == 5);
  for (const ChakraRank& rank : two_ranks()) {
    const ChakraTrace read = parse_chakra(chakra_messages(rank.trace), rank.file);
    REQUIRE(read.nodes.size() == rank.trace.nodes.size());
    for (std::size_t i = 0; i < read.nodes.size(); ++i) {
      ChakraNode node = read.nodes[i];
      node.at = 0;
      CHECK(node == rank.trace.nodes[i]);
    }
  }
}

TEST_CASE("attributes are read as integers of any kind, and lists of ids packed or not") {
  // id 1; type 5; data_deps 2 and 3 as separate fields; attributes comm_size sint64 (field 17, zigzag 8 = 4), comm_dst
  // fixed32 (field 19), comm_tag uint32 (field 11).
  std::string node{"\x08\x01\x18\x05\x28\x02\x28\x03", 8};
  node += std::string{"\x52\x0e\x0a\x09", 4} + "comm_size" + std::string{"\x88\x01\x08", 3};
  node += std::string{"\x52\x10\x0a\x08", 4} + "comm_dst" + std::string{"\x9d\x01\x06\x00\x00\x00", 6};
  node += std::string{"\x52\x0c\x0a\x08", 4} + "comm_tag" + std::string{"\x58\x09", 2};
  const std::string bytes = std::string{"\0", 1} + static_cast<char>(node.size()) + node;
  const ChakraTrace trace = parse_chakra(bytes, "x.0.et");
  REQUIRE(trace.nodes.size() == 1);
  CHECK(trace.nodes[0].data == std::vector<std::uint64_t>{2, 3});
  CHECK(trace.nodes[0].bytes == 4);
  CHECK(trace.nodes[0].destination == 6);
  CHECK(trace.nodes[0].tag == 9);

  // The tag as a text (field 29): a number that would count as 0.
  node = std::string{"\x08\x01\x18\x05\x52\x0d\x0a\x08", 8} + "comm_tag" + std::string{"\xea\x01\x00", 3};
  const std::string wrong = std::string{"\0", 1} + static_cast<char>(node.size()) + node;
  CHECK(test::finding_of([&] { parse_chakra(wrong, "x.0.et"); }).message ==
        "node at byte 1: its attribute comm_tag is not a whole number");
}

TEST_CASE("a folder of ranks is one problem: each rank on its device, messages and collectives between them") {
  const ChakraGraph chakra = chakra_graph(two_ranks(), "two");
  const Graph& graph = chakra.graph;
  const auto op = [&](const char* name) { return graph.find_op(name).value(); };
  CHECK(graph.device_kinds(op("r0/f.1")).front() == "gpu0");
  CHECK(graph.device_kinds(op("r1/fb.2")).front() == "gpu1");
  CHECK(graph.given_times(op("r1/fb.2")).front().time == Nanoseconds{30'000});
  // The receive on rank 1 reads the 4,096 bytes that rank 0 sends.
  REQUIRE(graph.inputs(op("r1/act.1")).size() == 1);
  CHECK(graph.producer(graph.inputs(op("r1/act.1"))[0]) == op("r0/act.2"));
  CHECK(graph.bytes(graph.inputs(op("r1/act.1"))[0]).count == 4096);
  // A ring of two ranks: each sends half of the array twice, 2 x 2 x 1,024 bytes.
  std::int64_t moved = 0;
  for (const TensorId tensor : graph.tensors())
    for (const OpId reader : graph.consumers(tensor))
      if (graph.device_kinds(reader).front() != graph.device_kinds(graph.producer(tensor)).front())
        moved += graph.bytes(tensor).count;
  CHECK(moved == 2 * 4096 + 4 * 1024);
}

TEST_CASE("one rank alone is a graph, whose messages take the durations of its file") {
  const ChakraGraph chakra = chakra_graph(two_ranks()[0]);
  CHECK(chakra.graph.op_count() == 5);
  CHECK(chakra.graph.name(OpId{0}) == "f.1");
  CHECK(contains(chakra.notes.front(), "3 messages and collectives involve other ranks"));
}

TEST_CASE("orders of ctrl_deps hold, but callers and cycles are left out") {
  std::vector<ChakraRank> ranks = two_ranks();
  ranks[0].trace.nodes[0].control = {5};  // the first node waits for the last: a cycle
  CHECK(contains(chakra_graph(ranks[0]).notes.front(), "ctrl_deps make a cycle"));
  ranks[0].trace.nodes[0].control = {3};
  CHECK(chakra_graph(ranks[0]).graph.after(OpId{0}).size() == 1);
  ranks[0].trace.nodes[1].has_caller = true;
  CHECK(chakra_graph(ranks[0]).graph.after(OpId{0}).empty());
}

TEST_CASE("all-gather, all-to-all and reduce-scatter move what each rank of a ring has to send") {
  // 4 ranks with 1,000 bytes each. All-gather: 3 steps of 4 x 1,000. All-to-all: 12 pairs x 250. Reduce-scatter: 3
  // steps of 4 x 250.
  for (const auto& [kind, bytes] : {std::pair{2, 12'000}, {6, 3'000}, {7, 3'000}}) {
    std::vector<ChakraRank> ranks;
    for (std::int64_t r = 0; r < 4; ++r) {
      ChakraNode node = chakra_all_reduce(0, {}, 1000);
      node.collective = kind;
      ranks.push_back({r, "x", {"0.0.4", {node}}});
    }
    const Graph graph = chakra_graph(ranks, "x").graph;
    std::int64_t moved = 0;
    for (const TensorId tensor : graph.tensors())
      for (const OpId reader : graph.consumers(tensor))
        if (graph.device_kinds(reader).front() != graph.device_kinds(graph.producer(tensor)).front())
          moved += graph.bytes(tensor).count;
    CHECK(moved == bytes);
  }
}

TEST_CASE("ranks, partners and collectives that are missing are named") {
  std::vector<ChakraRank> ranks = two_ranks();
  CHECK(contains(refused_ranks({ranks[1]}), "there is no file for rank 0"));
  CHECK(contains(refused_ranks({ranks[0], ranks[0]}), "rank 0 has two files"));
  CHECK(contains(refused_ranks({ranks[0]}), "rank 0 sends tag 7 to rank 1, which never receives it (node 2)"));
  ranks[1].trace.nodes[0].tag = 9;
  CHECK(contains(refused_ranks(ranks), "never receives it"));
  ranks = two_ranks();
  ranks[1].trace.nodes[2].type = NodeType::compute;
  CHECK(contains(refused_ranks(ranks), "rank 0 receives tag 8 from rank 1, which never sends it"));
  ranks = two_ranks();
  ranks[1].trace.nodes[0].bytes = 5;
  CHECK(contains(refused_ranks(ranks), "rank 0 sends 4096 bytes of tag 7"));
  ranks = two_ranks();
  ranks[1].trace.nodes.pop_back();
  CHECK(contains(refused_ranks(ranks), "rank 1 has 0 collectives of group 0, but others have 1"));
  ranks = two_ranks();
  ranks[1].trace.nodes[3].collective = 2;
  CHECK(contains(refused_ranks(ranks), "rank 1 has all_gather of 2048 bytes (node 4), but rank 0 has all_reduce"));
  ranks = two_ranks();
  ranks[0].trace.nodes[1].source = 1;
  CHECK(contains(refused_ranks(ranks), "node 2 of rank 0 has comm_src 1"));
}

TEST_CASE("what is wrong with a Chakra trace is said with its byte or node") {
  const std::string good = bytes_of_hex(kRankZero);
  CHECK(contains(refused_bytes(good.substr(0, 100)),
                 "the message at byte 66 has 86 bytes, but only 33 are left in the file"));
  CHECK(contains(refused_bytes(good.substr(0, 8)), "the trace has no nodes"));
  CHECK(contains(refused_bytes(std::string(12, '\xff')), "the length of the message before byte 10 is invalid"));
  const auto changed = [](const auto& change) {
    ChakraTrace trace = two_ranks()[0].trace;
    change(trace.nodes);
    return refused_bytes(chakra_messages(trace));
  };
  using Nodes = std::vector<ChakraNode>;
  CHECK(contains(changed([](Nodes& nodes) { nodes[1].id = 1; }), "node 1 at byte 66: its id occurs twice"));
  CHECK(contains(changed([](Nodes& nodes) { nodes[0].name = "\xff"; }), "its name is not UTF-8"));
  CHECK(contains(changed([](Nodes& nodes) { nodes[1].destination.reset(); }), "a send has no comm_dst"));
  CHECK(contains(changed([](Nodes& nodes) { nodes[1].bytes = -1; }), "negative or too large"));
  CHECK(contains(changed([](Nodes& nodes) { nodes[3].data = {77}; }), "node 4 ('b') waits for node 77"));
  CHECK(contains(changed([](Nodes& nodes) { nodes[0].data = {4}; }), "cycle"));
  CHECK(contains(refused_bytes(R"({"workload_graph": [{"Id": 1, "NodeType": 12}]})"), "has the unknown type 12"));
  CHECK(contains(refused_bytes(R"({"workload_graph": [{"Id": 1}]})"), "has the unknown type 0"));
  CHECK(contains(refused_bytes(R"({"workload_graph": [{"Id": 1, "NodeType": 5, "comm_dst": "x"}]})"),
                 "\"comm_dst\" must be a number, got a string"));
  CHECK(contains(changed([](Nodes& nodes) { nodes[1].type = NodeType::invalid; }),
                 "node 2 at byte 66 has the unknown type 0"));
}

namespace {

/// Faults of a trace that ASTRA-sim's feeders and workload layer refuse or silently misread.
std::vector<std::string> feeder_faults(const ChakraTrace& trace, std::int64_t rank) {
  std::vector<std::string> faults;
  std::set<std::uint64_t> before;
  bool free = false;
  for (const ChakraNode& node : trace.nodes) {
    const std::string here = "node " + std::to_string(node.id);
    free = free || node.data.empty();
    for (const std::uint64_t parent : node.data)
      if (!before.contains(parent)) faults.push_back(here + " stands before its parent");
    if (!before.insert(node.id).second) faults.push_back(here + " repeated");
    if (!node.control.empty()) faults.push_back(here + " has ctrl_deps, which the older feeder passes over");
    if (node.type == NodeType::compute || (node.type == NodeType::collective && node.collective && node.bytes > 0))
      continue;
    if (node.on_host || !node.source || !node.destination || node.bytes <= 0) faults.push_back(here + " is no message");
    if ((node.type == NodeType::send ? node.source : node.destination) != rank)
      faults.push_back(here + " is another rank's");
  }
  if (!free) faults.emplace_back("no node without parents");
  return faults;
}

}  // namespace

TEST_CASE("a schedule is a Chakra trace for each device, which the feeders accept, and takes the same time read back") {
  // Op a on gpu0 (10 us) sends 1,000,000 bytes to b on gpu1 (20 us), which sends them back to c on gpu0 (30 us). Op d
  // on gpu0 follows a; e follows b.
  GraphBuilder builder{"toy"};
  const auto op = [&](const char* name, std::int64_t us, std::vector<std::string> inputs,
                      std::vector<std::string> after) {
    builder.add({.name = name,
                 .times = {{"gpu", Nanoseconds{us * 1000}}},
                 .inputs = std::move(inputs),
                 .outputs = {{std::string{name} + ":0", Bytes{1'000'000}}},
                 .after = std::move(after)});
  };
  op("a", 10, {}, {});
  op("b", 20, {"a:0"}, {});
  op("c", 30, {"b:0"}, {});
  op("d", 5, {}, {"a"});
  const ClusterSpec pair = parse_cluster(
      "name = \"pair\"\ndevice = [{name = \"gpu0\", class = \"gpu\"}, {name = \"gpu1\", class = \"gpu\"}, "
      "{name = \"gpu2\", class = \"gpu\"}]\n"
      "link = [{name = \"l\", from = \"gpu0\", to = \"gpu1\", bandwidth = \"10 GB/s\"}, "
      "{name = \"m\", from = \"gpu1\", to = \"gpu2\", bandwidth = \"10 GB/s\"}]\n",
      "pair");
  const Problem problem{std::move(builder).build(), make_cluster(pair)};
  Schedule schedule;
  schedule.placement = IdMap<OpId, DeviceId>(4, DeviceId{0});
  schedule.placement[OpId{1}] = DeviceId{1};
  const Timeline timeline = simulate(problem, schedule);
  // a 10 + transfer 100 + b 20 + transfer 100 + c 30 us; d runs during the transfers.
  CHECK(timeline.makespan == Nanoseconds{260'000});
  const std::vector<ChakraTrace> traces = chakra_traces(problem, schedule.placement, timeline);
  REQUIRE(traces.size() == 3);
  CHECK(traces[2].nodes.size() == 1);  // idle
  std::vector<ChakraRank> ranks;
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    const ChakraTrace read = parse_chakra(chakra_messages(traces[rank]), "run");
    CHECK(feeder_faults(read, static_cast<std::int64_t>(rank)) == std::vector<std::string>{});
    ranks.push_back({static_cast<std::int64_t>(rank), "run", read});
  }
  const Problem again{chakra_graph(ranks, "run").graph, make_cluster(pair)};
  Schedule same;
  same.placement = IdMap<OpId, DeviceId>(again.op_count(), DeviceId{0});
  for (const OpId each : again.ops())
    for (const DeviceId device : again.devices())
      if (again.can_run(each, device)) same.placement[each] = device;
  CHECK(simulate(again, same).makespan == timeline.makespan);
}

TEST_CASE("a collective of a schedule is a node on each of its ranks, behind what they give to it") {
  // Two ranks compute gradients in 10 us, all-reduce 1,000,000 bytes, and use the sum in 5 us. The third rank is idle.
  GraphBuilder builder{"sum"};
  for (const char* name : {"grad@1", "grad@2"})
    builder.add({.name = name,
                 .times = {{"gpu", Nanoseconds{10'000}}},
                 .outputs = {{std::string{name} + ":0", Bytes{1'000'000}}}});
  builder.add({.name = "sum", .after = {"grad@1", "grad@2"}, .collective = CollectiveTask{.bytes = Bytes{1'000'000}}});
  for (const char* rank : {"1", "2"})
    builder.add({.name = std::string{"have@"} + rank,
                 .times = {{"gpu", Nanoseconds{5'000}}},
                 .inputs = {std::string{"grad@"} + rank + ":0"},
                 .outputs = {{std::string{"have@"} + rank + ":0", Bytes{1'000'000}}},
                 .after = {"sum"}});
  const Problem problem{std::move(builder).build(), make_cluster(preset_cluster("3xV100"))};
  Schedule schedule;
  schedule.placement = IdMap<OpId, DeviceId>(5, DeviceId{0});
  schedule.placement[OpId{1}] = schedule.placement[OpId{4}] = DeviceId{1};
  const std::vector<ChakraTrace> traces = chakra_traces(problem, schedule.placement, simulate(problem, schedule));
  REQUIRE(traces.size() == 3);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const ChakraTrace read = parse_chakra(chakra_messages(traces[rank]), "run");
    CHECK(feeder_faults(read, static_cast<std::int64_t>(rank)) == std::vector<std::string>{});
    REQUIRE(read.nodes.size() == 3);
    CHECK(read.nodes[1].type == NodeType::collective);
    CHECK(read.nodes[1].collective == static_cast<std::int64_t>(ChakraNode::Collective::all_reduce));
    CHECK(read.nodes[1].bytes == 1'000'000);
    CHECK(read.nodes[1].group == "1");  // the group of two of three ranks
    CHECK(read.nodes[1].data == std::vector<std::uint64_t>{1});
    CHECK(read.nodes[2].data == std::vector<std::uint64_t>{1, 2});
  }
}

TEST_CASE("public Chakra traces have the nodes and durations of the reference answers") {
  const auto file = test::reference_data("answers/traces/chakra.json");
  if (!file) return test::report_skipped("no reference data");
  const nlohmann::json answers = nlohmann::json::parse(read_input(*file));
  for (const auto& item : answers.items()) {
    const std::string& name = item.key();
    const nlohmann::json& answer = item.value();
    const auto source = test::reference_data("formats/chakra/" + name);
    if (!source) continue;
    CAPTURE(name);
    const ChakraTrace trace = parse_chakra(read_input(*source), name);
    CHECK(trace.version == answer["version"]);
    CHECK(trace.nodes.size() == answer["nodes"]);
    std::uint64_t duration = 0;
    std::int64_t bytes = 0;
    for (const ChakraNode& node : trace.nodes) {
      duration += node.duration;
      bytes += node.bytes;
    }
    CHECK(duration == answer["duration_us"]);
    CHECK(bytes == answer["comm_bytes"]);
  }
}
