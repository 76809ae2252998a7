#include "trainyard/rewrite/stage_meshes.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rewrite/by_name.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::inputs_of;
using test::op_named;

namespace {

using Names = std::vector<std::string>;

/// Ops a -> b -> b/grad -> a/grad, and an update for a and for b.
Graph chain() {
  GraphBuilder builder{"chain"};
  builder.add(
      {.name = "a", .layer = "a", .colocate = "a", .parameter_bytes = Bytes{40}, .outputs = {{"x", Bytes{96}}}});
  builder.add({.name = "b",
               .layer = "b",
               .colocate = "b",
               .parameter_bytes = Bytes{80},
               .inputs = {"x"},
               .outputs = {{"y", Bytes{24}}}});
  builder.add({.name = "b/grad",
               .phase = Phase::backward,
               .layer = "b",
               .colocate = "b",
               .inputs = {"x", "y"},
               .outputs = {{"dx", Bytes{96}}, {"db", Bytes{80}}}});
  builder.add({.name = "a/grad",
               .phase = Phase::backward,
               .layer = "a",
               .colocate = "a",
               .inputs = {"dx"},
               .outputs = {{"da", Bytes{40}}}});
  builder.add({.name = "a/update", .phase = Phase::update, .layer = "a", .colocate = "a", .inputs = {"da"}});
  builder.add({.name = "b/update", .phase = Phase::update, .layer = "b", .colocate = "b", .inputs = {"db"}});
  return std::move(builder).build();
}
const Names kA{"a", "a/grad", "a/update"}, kB{"b", "b/grad", "b/update"};

Bytes bytes_of(const Graph& graph, const std::string& tensor) {
  for (const TensorId each : graph.tensors())
    if (graph.name(each) == tensor) return graph.bytes(each);
  FAIL(tensor);
  return {};
}

std::string refusal(const StageMeshes& meshes) {
  const Finding finding = test::finding_of([&] { stage_meshes(chain(), meshes); });
  return finding.message + ": " + finding.help;
}

/// Random stages of a few layers each, in the order of the layers' first ops.
StageMeshes random_meshes(const Graph& graph, Random& random, bool ranks) {
  std::map<std::string, std::size_t> stage_of;
  StageMeshes meshes{.stages = std::vector<StageMesh>(1), .zero = random.below(2)};
  const std::size_t stages = 2 + random.below(2);
  for (const OpId op : graph.topological_order()) {
    if (graph.phase(op) != Phase::forward || stage_of.contains(graph.layer(op))) continue;
    if (meshes.stages.size() < stages && !stage_of.empty() && random.below(4) == 0) meshes.stages.emplace_back();
    stage_of[graph.layer(op)] = meshes.stages.size() - 1;
  }
  for (const OpId op : graph.ops()) meshes.stages[stage_of.at(graph.layer(op))].ops.emplace_back(graph.name(op));
  for (StageMesh& mesh : meshes.stages) {
    mesh.replicas = 1 + random.below(4);
    mesh.ranks = ranks ? std::size_t{1} << random.below(2) : 1;
    mesh.sequence = mesh.ranks > 1 && random.below(2) == 1;
  }
  return meshes;
}

}  // namespace

TEST_CASE("two replicas before one device: a tensor is joined on the way there and divided on the way back") {
  const StageMeshGraph made = stage_meshes(chain(), {.stages = {{.ops = kA, .replicas = 2}, {.ops = kB}}});
  const Graph& graph = made.graph;
  CHECK(inputs_of(graph, "x/from-0/joined@1") == Names{"x@1", "x@2"});
  CHECK(inputs_of(graph, "b") == Names{"x/from-0"});
  CHECK(bytes_of(graph, "x@1") == Bytes{48});
  CHECK(bytes_of(graph, "x/from-0") == Bytes{96});
  CHECK(inputs_of(graph, "dx/to-0/parts@1") == Names{"dx"});
  CHECK(inputs_of(graph, "a/grad@2") == Names{"dx/to-0/parts@1:1"});
  CHECK(bytes_of(graph, "dx/to-0/parts@1:1") == Bytes{48});
  // Gradients are all-reduced between the two replicas only, and each holds the weights.
  CHECK(graph.find_op("all-reduce/0/scatter@2"));
  CHECK(graph.parameter_bytes(op_named(graph, "a@2")) == Bytes{40});
  CHECK(inputs_of(graph, "b/update") == Names{"db"});
  const OpId joined = op_named(graph, "x/from-0/joined@1"), parts = op_named(graph, "dx/to-0/parts@1");
  CHECK(made.stage[joined] == 1);
  CHECK(made.stage[parts] == 1);
  CHECK(made.replica[op_named(graph, "a/grad@2")] == 1);
  CHECK(graph.phase(parts) == Phase::backward);
}

TEST_CASE("two stages of one device read what two replicas make: each joins it for itself") {
  GraphBuilder builder{"skip"};
  builder.add(
      {.name = "a", .layer = "a", .colocate = "a", .parameter_bytes = Bytes{40}, .outputs = {{"x", Bytes{96}}}});
  builder.add({.name = "b", .layer = "b", .inputs = {"x"}, .outputs = {{"y", Bytes{24}}}});
  builder.add({.name = "c", .layer = "c", .inputs = {"x", "y"}, .outputs = {{"z", Bytes{24}}}});
  builder.add({.name = "a/grad",
               .phase = Phase::backward,
               .layer = "a",
               .colocate = "a",
               .inputs = {"z"},
               .outputs = {{"da", Bytes{40}}}});
  builder.add({.name = "a/update", .phase = Phase::update, .layer = "a", .colocate = "a", .inputs = {"da"}});
  const StageMeshGraph made = stage_meshes(std::move(builder).build(),
                                           {.stages = {{.ops = kA, .replicas = 2}, {.ops = {"b"}}, {.ops = {"c"}}}});
  CHECK(inputs_of(made.graph, "x/from-0/joined@1") == Names{"x@1", "x@2"});
  CHECK(inputs_of(made.graph, "x/from-0-to-2/joined@1") == Names{"x@1", "x@2"});
  CHECK(inputs_of(made.graph, "b") == Names{"x/from-0"});
  CHECK(inputs_of(made.graph, "c") == Names{"x/from-0-to-2", "y"});
}

TEST_CASE("two replicas before three: sixths, of which the middle one takes one of each") {
  const StageMeshGraph made =
      stage_meshes(chain(), {.stages = {{.ops = kA, .replicas = 2}, {.ops = kB, .replicas = 3}}});
  const Graph& graph = made.graph;
  CHECK(inputs_of(graph, "x@1/from-0/joined@1") == Names{"x@1/to-1/parts@1:0", "x@1/to-1/parts@1:1"});
  CHECK(inputs_of(graph, "x@2/from-0/joined@1") == Names{"x@1/to-1/parts@1:2", "x@2/to-1/parts@1:0"});
  CHECK(bytes_of(graph, "x@2/to-1/parts@1:0") == Bytes{16});
  // Bucket numbers continue over stages: b's bucket is the second.
  CHECK(graph.find_op("all-reduce/1/scatter@3"));
}

TEST_CASE("as many replicas on each side read their like, ranks that of their number") {
  const StageMeshGraph made =
      stage_meshes(chain(), {.stages = {{.ops = kA, .replicas = 2}, {.ops = kB, .replicas = 2, .ranks = 2}}});
  CHECK(inputs_of(made.graph, "b^1@2") == Names{"x@2"});
  CHECK(inputs_of(made.graph, "b^2@2") == Names{"x@2"});
  CHECK(inputs_of(made.graph, "a/grad@1") == Names{"dx^1@1"});
  CHECK(made.rank[op_named(made.graph, "b^2@2")] == 1);
}

TEST_CASE("an update of another stage reads gradients as the sum of the replicas that make them") {
  GraphBuilder builder{"tied"};
  builder.add(
      {.name = "a", .layer = "a", .colocate = "a", .parameter_bytes = Bytes{40}, .outputs = {{"x", Bytes{96}}}});
  builder.add({.name = "b",
               .layer = "b",
               .colocate = "b",
               .parameter_bytes = Bytes{40},
               .inputs = {"x"},
               .outputs = {{"y", Bytes{24}}}});
  builder.add({.name = "b/grad",
               .phase = Phase::backward,
               .colocate = "b",
               .inputs = {"y"},
               .outputs = {{"dx", Bytes{96}}, {"db", Bytes{40}}}});
  builder.add(
      {.name = "a/grad", .phase = Phase::backward, .colocate = "a", .inputs = {"dx"}, .outputs = {{"da", Bytes{40}}}});
  for (const char* copy : {"a", "b"})
    builder.add({.name = std::string{copy} + "/sum",
                 .type = "AddGrad",
                 .phase = Phase::update,
                 .colocate = copy,
                 .inputs = {"da", "db"}});
  const Graph tied = std::move(builder).build();
  StageMeshes meshes{
      .stages = {{.ops = {"a", "a/grad", "a/sum"}, .replicas = 2}, {.ops = {"b", "b/grad", "b/sum"}, .replicas = 3}},
      .collective = Collective::whole};
  const Graph graph = stage_meshes(tied, meshes).graph;
  CHECK(inputs_of(graph, "a/sum@2") == Names{"da/sum@2", "db/sum@2"});  // replica 2 of 3 shares samples
  CHECK(inputs_of(graph, "b/sum@3") == Names{"da/sum@2", "db/sum@3"});
  CHECK(bytes_of(graph, "da/sum@2") == Bytes{40});
  // With ZeRO too, the other stage reads the whole gradient.
  meshes.zero = 1;
  CHECK(inputs_of(stage_meshes(tied, meshes).graph, "b/sum@3") == Names{"da/sum@2", "db/sum@3"});
}

TEST_CASE("an op after one of another stage is after its copies that have samples in common") {
  GraphBuilder builder{"after"};
  builder.add({.name = "a", .outputs = {{"x", Bytes{96}}}});
  builder.add({.name = "b", .after = {"a"}});
  const Graph graph = std::move(builder).build();
  const auto after = [](const StageMeshGraph& made, const char* op) {
    Names names;
    for (const OpId each : made.graph.after(op_named(made.graph, op))) names.emplace_back(made.graph.name(each));
    return names;
  };
  CHECK(after(stage_meshes(graph, {.stages = {{.ops = {"a"}, .replicas = 4}, {.ops = {"b"}, .replicas = 2}}}), "b@2") ==
        Names{"a@3", "a@4"});
  CHECK(after(stage_meshes(graph, {.stages = {{.ops = {"a"}, .replicas = 2}, {.ops = {"b"}, .replicas = 4}}}), "b@3") ==
        Names{"a@2"});
}

TEST_CASE("200 random stages of networks: work, weights and what crosses a cut are those of the network") {
  Random random{11};
  for (const char* network :
       {"lenet:batch=48", "transformer:layers=1,batch=24", "resnet18:batch=24", "mobilenet_v2:batch=24"})
    for (int round = 0; round < test::rounds(50); ++round) {
      CAPTURE(network);
      CAPTURE(round);
      const Graph graph = training_graph(make_network(network));
      const StageMeshes meshes = random_meshes(graph, random, round % 2 == 1);
      StageMeshGraph made;
      try {
        made = stage_meshes(graph, meshes);
      } catch (const InputError& error) {  // stages that share tied weights
        REQUIRE(error.findings().front().code == "stages");
        continue;
      }
      std::map<std::string, std::size_t> stage_of;
      for (std::size_t s = 0; s < meshes.stages.size(); ++s)
        for (const std::string& op : meshes.stages[s].ops) stage_of[op] = s;
      // Without tensor ranks, a stage's forward ops have the network's FLOPs, and each replica holds all weights of its
      // stage.
      double flops = 0, whole = 0;
      std::vector<std::int64_t> held(meshes.stages.size(), 0), given(meshes.stages.size(), 0);
      for (const OpId op : graph.ops()) {
        if (graph.phase(op) == Phase::forward) whole += graph.flops(op).value;
        given[stage_of.at(std::string{graph.name(op)})] += graph.parameter_bytes(op).count;
      }
      for (const OpId op : made.graph.ops()) {
        if (made.graph.phase(op) == Phase::forward) flops += made.graph.flops(op).value;
        held[made.stage[op]] += made.graph.parameter_bytes(op).count;
        CHECK(made.replica[op] < meshes.stages[made.stage[op]].replicas);
        CHECK(made.rank[op] < meshes.stages[made.stage[op]].ranks);
      }
      if (round % 2 == 0) CHECK(flops == doctest::Approx(whole).epsilon(1e-9));
      for (std::size_t s = 0; s < held.size(); ++s) {
        const auto replicas = static_cast<std::int64_t>(meshes.stages[s].replicas);
        if (meshes.stages[s].ranks == 1) CHECK(held[s] == replicas * given[s]);
        if (meshes.stages[s].ranks > 1) CHECK(held[s] >= replicas * given[s]);
      }
      // Without tensor ranks, every tensor that a stage reads arrives once, divided among its replicas.
      std::map<std::pair<std::string, std::size_t>, std::int64_t> arrived;  // by (tensor, stage)
      for (const TensorId tensor : graph.tensors()) {
        const std::size_t from = stage_of.at(std::string{graph.name(graph.producer(tensor))});
        std::vector<bool> reads(meshes.stages.size(), false);
        for (const OpId reader : graph.consumers(tensor)) reads[stage_of.at(std::string{graph.name(reader)})] = true;
        for (std::size_t to = 0; to < reads.size(); ++to)
          if (reads[to] && to != from) arrived[{std::string{graph.name(tensor)}, to}] = graph.bytes(tensor).count;
      }
      std::int64_t expected = 0, crossing = 0;
      for (const auto& [at, bytes] : arrived)  // tensors of up to 8 bytes are not divided
        expected += bytes * static_cast<std::int64_t>(bytes <= 8 ? meshes.stages[at.second].replicas : 1);
      for (const TensorId tensor : made.graph.tensors()) {
        const OpId maker = made.graph.producer(tensor);
        std::set<std::pair<std::size_t, std::size_t>> to;  // (stage, replica)
        for (const OpId reader : made.graph.consumers(tensor))
          if (made.stage[reader] != made.stage[maker]) to.emplace(made.stage[reader], made.replica[reader]);
        crossing += static_cast<std::int64_t>(to.size()) * made.graph.bytes(tensor).count;
      }
      if (round % 2 == 0) CHECK(crossing == expected);
    }
}

TEST_CASE("stages that are none of the graph are refused") {
  CHECK(refusal({.stages = {{.ops = kA}}}) == "op 'b' is in no stage: name every op in one of the stages");
  CHECK(refusal({.stages = {{.ops = kA}, {.ops = kB}, {.ops = {"a"}}}}) ==
        "op 'a' is in stage 0 and in stage 2: name it once");
  CHECK(refusal({.stages = {{.ops = kA}, {.ops = kB, .replicas = 0}}}) ==
        "stage 1 has no devices: give each stage ops, at least one replica and at least one rank");
  CHECK(refusal({.stages = {{.ops = kA}, {.ops = {"b/grda"}}}}) == "no op is named 'b/grda': did you mean 'b/grad'?");
  CHECK(refusal({.stages = {{.ops = {"a", "a/grad"}}, {.ops = {"b", "b/grad", "b/update", "a/update"}}}}) ==
        "tensor 'da', a gradient of parameters, goes from stage 0 to stage 1: put the op that makes it, the parameters "
        "and their update into one stage, or tie copies");
}
