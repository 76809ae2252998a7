#include "trainyard/io/pytorch/fx.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/io/input_text.hpp"
#include "trainyard/io/pytorch/foreign_graph.hpp"

using namespace trainyard;
using test::contains;

namespace {

/// A training step: y = x w; relu in place; a view of it; dw = x' y; w -= dw.
const char* const kFxStep = R"({"format": "fx-train-0", "summary": {},
"tensors": [
 {"id": 0, "shape": [4, 2], "dtype": "float32", "bytes": 32, "kind": "param", "name": "w", "base": 0},
 {"id": 1, "shape": [3, 4], "dtype": "float32", "bytes": 48, "kind": "input", "name": "x", "base": 1},
 {"id": 2, "shape": [3, 2], "dtype": "float32", "bytes": 24, "kind": "fwd", "name": "mm", "base": 2},
 {"id": 3, "shape": [3, 2], "dtype": "float32", "bytes": 24, "kind": "fwd", "name": "relu_", "base": 2},
 {"id": 4, "shape": [6], "dtype": "float32", "bytes": 24, "kind": "fwd", "name": "view", "base": 2},
 {"id": 5, "shape": [4, 2], "dtype": "float32", "bytes": 32, "kind": "bwd", "name": "mm_1", "base": 5},
 {"id": 6, "shape": [4, 2], "dtype": "float32", "bytes": 32, "kind": "optstate", "name": "w.state0", "base": 6}],
"nodes": [
 {"id": 0, "name": "mm", "op": "mm", "phase": "fwd", "alias": false, "in": [1, 0], "out": [2], "flops": 48},
 {"id": 1, "name": "relu_", "op": "relu_", "phase": "fwd", "alias": false, "in": [2], "out": [3], "flops": 6},
 {"id": 2, "name": "view", "op": "view", "phase": "fwd", "alias": true, "in": [3], "out": [4], "flops": 0},
 {"id": 3, "name": "mm_1", "op": "mm", "phase": "bwd", "alias": false, "in": [1, 4], "out": [5], "flops": 48},
 {"id": 4, "name": "opt.w", "op": "sgdm", "phase": "opt", "alias": false, "in": [5, 0, 6], "out": [], "flops": 32}]})";

std::string refused_fx(std::string text, const std::string& part, const std::string& by) {
  text.replace(text.find(part), part.size(), by);
  return test::refusal_text([&] { parse_fx_graph(text, "fx.json"); });
}

}  // namespace

TEST_CASE(
    "a graph of torch.fx: views are passed over, in-place ops make new versions, the optimizer holds its parameter") {
  const Graph graph = parse_fx_graph(kFxStep, "fx.json");
  REQUIRE(graph.op_count() == 4);
  CHECK(graph.type(OpId{1}) == "relu_");
  // The backward mm reads a view of the version that relu_ made of mm's result.
  REQUIRE(graph.inputs(OpId{2}).size() == 1);
  CHECK(graph.producer(graph.inputs(OpId{2})[0]) == OpId{1});
  CHECK(graph.phase(OpId{2}) == Phase::backward);
  CHECK(graph.parameter_bytes(OpId{3}).count == 32);
  CHECK(graph.state_bytes(OpId{3}).count == 32);
  CHECK(graph.colocation_group(OpId{3}) == graph.colocation_group(OpId{0}));
  CHECK(graph.colocation_group(OpId{1}).empty());
  CHECK(graph.signature(OpId{0}) == "mm float32[3,4] float32[4,2]");
  CHECK(graph.bytes_accessed(OpId{0}).count == 48 + 32 + 24);
  CHECK(graph.flops(OpId{0}).value == 48);
}

TEST_CASE("what is wrong with a graph of torch.fx is said at its place") {
  CHECK(contains(refused_fx(kFxStep, "\"in\": [2]", "\"in\": [9]"), "there is no tensor 9"));
  CHECK(contains(refused_fx(kFxStep, "\"base\": 6", "\"base\": 7"), "a view of tensor 7, which does not exist"));
  CHECK(contains(refused_fx(kFxStep, "\"id\": 3", "\"id\": 4"), "tensor 4 is at position 3"));
  CHECK(contains(refused_fx(kFxStep, "\"phase\": \"bwd\"", "\"phase\": \"bw\""), "a phase is fwd, bwd or opt"));
  CHECK(contains(refused_fx(kFxStep, "\"bytes\": 24", "\"bytes\": -24"), "negative-bytes"));
  CHECK(contains(refused_fx(kFxStep, "\"name\": \"mm_1\", \"op\"", "\"name\": \"mm\", \"op\""), "duplicate-name"));
  CHECK(contains(refused_fx(kFxStep, "\"in\": [1, 0], ", ""), "a node has no \"in\""));
  CHECK(contains(refused_fx(kFxStep, "\"in\": [1, 0]", "\"in\": [1, 0, 5]"),
                 "'mm_1' makes tensor 5, but 'mm' reads it earlier"));
  CHECK(contains(refused_fx(kFxStep, "\"name\": \"w\"", "\"name\": \"w\xff\""), "UTF-8"));
  CHECK(contains(refused_fx(kFxStep, "\"flops\": 32}]}", "\"flops\": 3"), "cut short"));
}

TEST_CASE("training graphs of torch.fx have the ops, edges and parameters of the reference answers") {
  const auto file = test::reference_data("answers/traces/fx.json");
  if (!file) return test::report_skipped("no reference data");
  const nlohmann::json answers = nlohmann::json::parse(read_input(*file));
  for (const auto& item : answers.items()) {
    const std::string& name = item.key();
    const nlohmann::json& answer = item.value();
    CAPTURE(name);
    const auto source = test::reference_data("fx/" + name + ".json.gz");
    REQUIRE(source);
    const auto foreign = read_foreign_graph(*source);
    REQUIRE(foreign);
    const Graph& graph = foreign->graph;
    CHECK(graph.op_count() == answer["ops"]);
    std::set<std::pair<std::size_t, std::size_t>> edges;
    std::int64_t parameters = 0, states = 0;
    double flops = 0;
    for (const OpId op : graph.ops()) {
      for (const TensorId input : graph.inputs(op)) edges.emplace(graph.producer(input).index(), op.index());
      parameters += graph.parameter_bytes(op).count;
      states += graph.state_bytes(op).count;
      flops += graph.flops(op).value;
    }
    CHECK(edges.size() == answer["edges"]);
    CHECK(parameters == answer["parameter_bytes"]);
    CHECK(states == answer["state_bytes"]);
    CHECK(flops == answer["flops"].get<double>());
  }
}
