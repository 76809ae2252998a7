#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/io/formats/schedule_file.hpp"
#include "trainyard/place/catalogue.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

Problem lenet() { return {training_graph(make_network("lenet:batch=64")), make_cluster(preset_cluster("4xV100"))}; }

std::string written(const Schedule& schedule, const Problem& problem) {
  std::ostringstream out;
  write_schedule(schedule, problem, nullptr, out);
  return out.str();
}

Finding first_finding(const std::string& splits) {
  return test::finding_of([&] {
    parse_schedule(R"({"format": "trainyard-schedule/1", "splits": [)" + splits + R"(], "placement": {}})", "s.json",
                   lenet());
  });
}

std::string code_of(const std::string& splits) { return first_finding(splits).code; }

}  // namespace

TEST_CASE("a schedule that changes the graph comes back from its file, and takes as long") {
  const Problem problem = lenet();
  struct Case {
    const char* placer;
    std::map<std::string, std::string> parameters;
  };
  for (const Case& each : {Case{"pipeline", {{"microbatches", "4"}, {"recompute", "blocks"}}},
                           Case{"pipeline", {{"schedule", "interleaved"}, {"recompute", "stages"}}},
                           Case{"data-parallel", {{"zero", "3"}, {"bucket", "1"}}},
                           Case{"data-parallel", {{"collective", "hierarchical"}, {"per-node", "2"}}},
                           Case{"pipeline", {{"replicas", "2"}, {"microbatches", "2"}}},
                           Case{"data-parallel", {{"collective", "parameter-server"}}}, Case{"os-dpos", {}}}) {
    CAPTURE(each.placer);
    Schedule schedule = find_placer(each.placer).place(problem, {.parameters = each.parameters});
    schedule.notes.clear();  // notes are not written to the file
    REQUIRE_FALSE(schedule.rewrites.empty());
    const Schedule read = parse_schedule(written(schedule, problem), "schedule.json", problem);
    CHECK(read == schedule);
    CHECK(simulate(problem, read) == simulate(problem, schedule));
  }
}

TEST_CASE("each kind of rewrite has its text in the file, with what differs from the defaults alone") {
  const Problem problem = lenet();
  struct Case {
    Rewrite rewrite;
    const char* text;
  };
  const std::vector<Case> cases{
      {SplitOp{"conv2/conv", SplitDimension::channel, 3},
       R"({"op": "conv2/conv", "dimension": "channel", "parts": 3})"},
      {Replicate{.replicas = 4}, R"({"replicas": 4})"},
      {Replicate{.replicas = 4, .collective = Collective::ring, .zero = 2, .bucket = Bytes{1}},
       R"({"replicas": 4, "collective": "ring", "zero": 2, "bucket_bytes": 1})"},
      {Replicate{.replicas = 4, .collective = Collective::hierarchical, .per_node = 2},
       R"({"replicas": 4, "collective": "hierarchical", "per_node": 2})"},
      {Replicate{
           .replicas = 4, .collective = Collective::whole, .fold = 1, .classes = {3, 1}, .class_of = {0, 0, 1, 0}},
       R"({"replicas": 4, "collective": "whole", "fold": 1, "classes": [3, 1], "class_of": [0, 0, 1, 0]})"},
      {Microbatch{8}, R"({"microbatches": 8})"},
      {TensorParallel{2}, R"({"tensor": 2})"},
      {Recompute{{"conv1/conv", "conv1/relu"}}, R"({"recompute": ["conv1/conv", "conv1/relu"]})"},
      {Recompute{{"conv1/conv"}, {"conv1/relu"}}, R"({"recompute": ["conv1/conv"], "also": ["conv1/relu"]})"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    const Problem whole = apply_rewrites(problem, {each.rewrite});
    const Schedule schedule{.placement = Placement(whole.op_count(), DeviceId{0}), .rewrites = {each.rewrite}};
    const std::string text = written(schedule, problem);
    CHECK(text.find(std::string{",\n \"splits\": [\n  "} + each.text + "]") != std::string::npos);
    CHECK(parse_schedule(text, "schedule.json", problem) == schedule);
  }
}

TEST_CASE("copies of tied weights come back from a schedule's file") {
  const Problem problem{training_graph(make_network("gpt2:layers=1")), make_cluster(preset_cluster("2xV100"))};
  const std::vector<Rewrite> rewrites{TiedCopies{{{"head/matmul", "head/matmul/grad"}}}};
  const Problem whole = apply_rewrites(problem, rewrites);
  const Schedule schedule{.placement = Placement(whole.op_count(), DeviceId{0}), .rewrites = rewrites};
  const std::string text = written(schedule, problem);
  CHECK(text.find(R"({"tied": [["head/matmul", "head/matmul/grad"]]}])") != std::string::npos);
  CHECK(parse_schedule(text, "schedule.json", problem) == schedule);
}

TEST_CASE("tensors that wait on the host come back from a schedule's file, for a cluster that has a host") {
  const Graph graph = training_graph(make_network("lenet:batch=64"));
  const Problem problem{graph, make_cluster(preset_cluster("cpu-v100"))};
  const std::vector<Rewrite> rewrites{Offload{"conv1/relu.out", "fc1/gemm", "fc2/gemm/grad"},
                                      Offload{"conv1/max_pool.out", "", "fc3/gemm/grad"}};
  const Problem whole = apply_rewrites(problem, rewrites);
  Schedule schedule{.placement = Placement(whole.op_count(), DeviceId{0}), .rewrites = rewrites};
  for (const OpId op : problem.ops()) schedule.placement[op] = DeviceId{1};
  const std::string text = written(schedule, problem);
  CHECK(text.find(R"({"offload": "conv1/relu.out", "away_before": "fc1/gemm", "back_after": "fc2/gemm/grad"},)") !=
        std::string::npos);
  CHECK(text.find(R"({"offload": "conv1/max_pool.out", "back_after": "fc3/gemm/grad"}])") != std::string::npos);
  CHECK(parse_schedule(text, "schedule.json", problem) == schedule);
  CHECK(simulate(problem, parse_schedule(text, "schedule.json", problem)) == simulate(problem, schedule));
  const Finding finding = test::finding_of([&] { parse_schedule(text, "schedule.json", lenet()); });
  CHECK(finding.code == "no-device");
  CHECK(finding.message.find("conv1/relu.out/away") != std::string::npos);
}

TEST_CASE("replicas that hold different experts come back from a schedule's file") {
  const Problem problem{training_graph(make_network("mixtral_8x7b:batch=4,seq=8,layers=1,hidden=16,heads=2,kv_heads=1,"
                                                    "inner=24,experts=4,vocabulary=32")),
                        make_cluster(preset_cluster("4xV100"))};
  const Replicate replicate{.replicas = 4, .collective = Collective::whole, .experts = 2};
  const Problem whole = apply_rewrites(problem, {replicate});
  const Schedule schedule{.placement = Placement(whole.op_count(), DeviceId{0}), .rewrites = {replicate}};
  const std::string text = written(schedule, problem);
  CHECK(text.find(R"({"replicas": 4, "collective": "whole", "experts": 2})") != std::string::npos);
  CHECK(parse_schedule(text, "schedule.json", problem) == schedule);
}

TEST_CASE("replicas that share the sequence come back from a schedule's file") {
  const Problem problem{training_graph(make_network("llama3_8b:batch=2,seq=8,layers=1,hidden=16,heads=2,kv_heads=2,"
                                                    "inner=24,vocabulary=32,fused=1")),
                        make_cluster(preset_cluster("4xV100"))};
  const Replicate replicate{
      .replicas = 4, .collective = Collective::whole, .context = 2, .exchange = ContextExchange::all_to_all};
  const Problem whole = apply_rewrites(problem, {replicate});
  const Schedule schedule{.placement = Placement(whole.op_count(), DeviceId{0}), .rewrites = {replicate}};
  const std::string text = written(schedule, problem);
  CHECK(text.find(R"({"replicas": 4, "collective": "whole", "context": 2, "exchange": "all-to-all"})") !=
        std::string::npos);
  CHECK(parse_schedule(text, "schedule.json", problem) == schedule);
}

TEST_CASE("numbers of rewrites that no reader would take are not written") {
  const Problem problem = lenet();
  const auto refused = [&](Replicate replicate) {
    const Problem whole = apply_rewrites(problem, {replicate});
    CHECK_THROWS_AS(written({.placement = Placement(whole.op_count(), DeviceId{0}), .rewrites = {replicate}}, problem),
                    InputError);
  };
  refused({.replicas = 2, .experts = 0});  // a parameter server ignores it, but it is checked
  refused({.replicas = 2, .context = 0});
  refused({.replicas = 2, .bucket = Bytes{0}});
  refused({.replicas = 2, .bucket = Bytes{-1}});
}

TEST_CASE("stages with degrees of their own come back from a schedule's file") {
  const Problem problem = lenet();
  StageMeshes meshes{.stages = {{.replicas = 2}, {.ranks = 2, .sequence = true}},
                     .collective = Collective::whole,
                     .zero = 1,
                     .bucket = Bytes{7}};
  for (const OpId op : problem.ops())
    meshes.stages[problem.graph().layer(op).starts_with("fc") ? 1 : 0].ops.emplace_back(problem.graph().name(op));
  const Problem whole = apply_rewrites(problem, {meshes});
  const Schedule schedule{.placement = Placement(whole.op_count(), DeviceId{0}), .rewrites = {meshes}};
  const std::string text = written(schedule, problem);
  CHECK(text.find(R"("replicas": 2},)") != std::string::npos);
  CHECK(text.find(R"("ranks": 2, "sequence": true}], "collective": "whole", "zero": 1, "bucket_bytes": 7})") !=
        std::string::npos);
  CHECK(parse_schedule(text, "schedule.json", problem) == schedule);
  CHECK(code_of(R"({"meshes": [{"ops": ["conv1/conv"]}]})") == "stages");
  CHECK(code_of(R"({"meshes": [{"ops": ["conv"]}]})") == "unknown-op");
  CHECK(code_of(R"({"meshes": [{"ops": ["conv1/conv"], "replicas": 0}]})") == "split-parts");
  CHECK(code_of(R"({"meshes": [{"ops": ["conv1/conv"]}], "zero": 0})") == "stages");  // as without the default
}

TEST_CASE("what is wrong with a change of the graph is found where it stands") {
  CHECK(code_of(R"({"replicas": 2, "collective": "rings"})") == "unknown-collective");
  CHECK(code_of(R"({"op": "conv9", "dimension": "batch", "parts": 2})") == "unknown-op");
  CHECK(code_of(R"({"op": "", "dimension": "batch", "parts": 2})") == "unknown-op");
  CHECK(code_of(R"({})") == "missing-key");
  CHECK(code_of(R"({"replicas": 0})") == "split-parts");
  CHECK(code_of(R"({"replicas": 2, "zero": 4, "collective": "ring"})") == "zero");
  CHECK(code_of(R"({"replicas": 4, "collective": "hierarchical", "per_node": 3})") == "collective");
  CHECK(code_of(R"({"replicas": 2, "bucket_bytes": 0})") == "split-parts");
  CHECK(code_of(R"({"replicas": 2, "experts": 2, "collective": "ring"})") == "experts");
  CHECK(code_of(R"({"replicas": 2, "context": 2, "collective": "ring"})") == "context");
  CHECK(code_of(R"({"replicas": 2, "context": 2, "exchange": "tree"})") == "exchange");
  CHECK(code_of(R"({"microbatches": 0})") == "split-parts");
  CHECK(code_of(R"({"tensor": 0})") == "split-parts");
  const auto message_of = [](const char* splits) { return first_finding(splits).message; };
  CHECK(message_of(R"({"tensor": 2, "fold": 0})") == "\"fold\" must be at least 1");
  CHECK(message_of(R"({"microbatches": 2, "at_once": 0})") == "\"at_once\" must be at least 1");
  CHECK(message_of(R"({"meshes": [], "bucket_bytes": 0})") == "\"bucket_bytes\" must be at least 1");
  CHECK(code_of(R"({"microbatches": 2, "zero": 1})") == "unknown-key");
  CHECK(code_of(R"({"recompute": ["conv9"]})") == "unknown-op");
  CHECK(code_of(R"({"recompute": "conv1/conv"})") == "type");
  CHECK(code_of(R"({"offload": "conv9", "back_after": "conv1/conv"})") == "unknown-tensor");
  CHECK(code_of(R"({"offload": "conv1/relu.out"})") == "missing-key");
  CHECK(code_of(R"({"offload": 3, "back_after": "conv1/conv"})") == "type");
  CHECK(code_of(R"({"tied": "conv1/conv"})") == "type");
  CHECK(code_of(R"({"tied": [["conv9"]]})") == "unknown-op");
  CHECK(code_of(R"({"tied": [["conv1/relu"]]})") == "tied");
  CHECK(code_of(R"({"offload": "conv1/relu.out", "back_after": "conv9"})") == "unknown-op");
  CHECK(code_of(R"({"offload": "conv1/relu.out", "back_after": "conv1/relu/grad"})") == "cycle");
  CHECK(code_of(R"({"offload": "conv1/relu.out", "back_after": "conv2/conv", "ops": []})") == "unknown-key");
}
