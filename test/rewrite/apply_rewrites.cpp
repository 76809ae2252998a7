#include "trainyard/rewrite/apply_rewrites.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "rewrite/lenet_replica.hpp"
#include "support/refusal.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/rewrite/data_parallel.hpp"
#include "trainyard/rewrite/recompute.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

Graph whole_lenet() { return training_graph(make_network("lenet:batch=64")); }

Finding refusal(const Graph& graph, const Rewrite& rewrite) {
  return test::finding_of([&] { apply_rewrites(graph, std::vector{rewrite}); });
}

}  // namespace

TEST_CASE("rewrites follow each other: run again, in microbatches, in replicas") {
  const Graph whole = whole_lenet();
  const std::vector<Rewrite> rewrites{
      Recompute{{"conv1/conv"}},
      Microbatch{2},
      Replicate{.replicas = 2, .collective = Collective::ring, .zero = 3, .bucket = Bytes{1}},
  };
  const Graph graph = apply_rewrites(whole, rewrites);
  CHECK(graph.find_op("conv1/conv~2@2"));
  CHECK(graph.find_op("conv1/conv.weight/update@2"));
  const auto code = [&](const Rewrite& wrong) {
    const Finding finding = refusal(whole, wrong);
    return finding.code + finding.pointer;
  };
  CHECK(code(Microbatch{0}) == "unsplittable/splits/0");
  CHECK(code(Recompute{{"conv1/convolution"}}) == "unknown-op/splits/0");
  CHECK(code(Recompute{{"conv1/conv/grad"}}) == "recompute/splits/0");
  const OpId conv = whole.find_op("conv1/conv").value(), gradient = whole.find_op("conv1/conv/grad").value();
  const auto direct = [&](const std::vector<OpId>& segment) {
    return test::finding_of([&] { recompute(whole, std::vector<std::vector<OpId>>{segment}); }).message;
  };
  CHECK(direct({gradient}) == "op 'conv1/conv/grad' is not in the forward pass");
  CHECK(direct({conv, conv}) == "op 'conv1/conv' is listed twice to run again");
  CHECK(code(Replicate{.replicas = 2, .zero = 2}) == "zero/splits/0");
  CHECK(code(Replicate{.replicas = std::size_t{1} << 40}) == "too-large/splits/0");
  Replicate folded{.replicas = 3, .collective = Collective::whole, .fold = 1, .classes = {2, 1}};
  for (const auto& classes : std::vector<std::vector<std::size_t>>{{}, {0, 1, 0}, {0, 0, 1}}) {
    folded.class_of = classes;
    CHECK(code(folded) == "");
  }
  for (const auto& classes :
       std::vector<std::vector<std::size_t>>{{0, 1}, {1, 0, 0}, {0, 1, 1}, {0, 0, 2}, {0, 1, 0, 0}}) {
    folded.class_of = classes;
    CHECK(code(folded) == "fold/splits/0");
  }
}

TEST_CASE("splits of ops that are not there or cannot be split say so") {
  const Graph graph = test::lenet_replica();
  const auto code = [&](const std::vector<Rewrite>& splits) {
    const Finding finding = test::finding_of([&] { apply_rewrites(graph, splits); });
    return finding.code + finding.pointer;
  };
  CHECK(code({SplitOp{"conv2/conv@1", SplitDimension::batch, 2}, SplitOp{"conv2/conv@1", SplitDimension::batch, 2}}) ==
        "unknown-op/splits/1");
  CHECK(code({SplitOp{"conv2/relu@1", SplitDimension::batch, 2}}) == "unsplittable/splits/0");
  CHECK(code({SplitOp{"conv2/conv@1", SplitDimension::channel, 17}}) == "unsplittable/splits/0");
  CHECK(code({SplitOp{"conv2/conv@1", SplitDimension::channel, 1}}) == "unsplittable/splits/0");
  CHECK(code({Replicate{0}}) == "unsplittable/splits/0");
  CHECK(code({SplitOp{"conv2/conv@1", SplitDimension::batch, 2},
              SplitOp{"conv2/conv@1/part0", SplitDimension::channel, 2}}) == "");
}

TEST_CASE("splits one after the other are those made one by one") {
  const Graph graph = test::lenet_replica();
  const std::vector<Rewrite> splits{SplitOp{"conv1/conv@1", SplitDimension::batch, 2},
                                    SplitOp{"conv2/conv/grad@1", SplitDimension::channel, 3}};
  CHECK(apply_rewrites(graph, splits) ==
        apply_rewrites(apply_rewrites(graph, {splits.data(), 1}), {splits.data() + 1, 1}));
}

TEST_CASE("an op that is not there is refused by name, with the nearest one that is") {
  for (const Rewrite& rewrite : {Rewrite{SplitOp{"conv1/con"}}, Rewrite{Recompute{{"conv2/conv", "conv1/con"}}}}) {
    const Finding finding = refusal(whole_lenet(), rewrite);
    CHECK(finding.code == "unknown-op");
    CHECK(finding.message == "no op is named 'conv1/con'");
    CHECK(finding.help.find("conv1/conv") != std::string::npos);
    CHECK(finding.pointer == "/splits/0");
  }
}

TEST_CASE("a problem remembers its rewrites, and a schedule is of the problem that has its own") {
  const Problem problem{whole_lenet(), make_cluster(preset_cluster("2xV100"))};
  CHECK(problem.rewrites().empty());
  CHECK(apply_rewrites(problem, {}).op_count() == problem.op_count());
  const std::vector<Rewrite> first{Microbatch{2}}, both{Microbatch{2}, Replicate{.replicas = 2}};
  const Problem half = apply_rewrites(problem, first), whole = apply_rewrites(half, {both.back()});
  CHECK(half.rewrites() == first);
  CHECK(whole.rewrites() == both);
  CHECK(whole.graph() == apply_rewrites(problem.graph(), both));

  const Schedule schedule{.placement = Placement(whole.op_count(), DeviceId{0}), .rewrites = both};
  CHECK(scheduled_problem(problem, schedule).graph() == whole.graph());
  CHECK(scheduled_problem(whole, schedule).graph() == whole.graph());
  CHECK_NOTHROW(check_schedule(whole, schedule));
  CHECK_THROWS_AS(check_schedule(problem, schedule), InputError);
  CHECK_THROWS_AS(scheduled_problem(half, schedule), InputError);
}

TEST_CASE("rewrites that would make too much of a graph are refused before they begin") {
  const Graph graph = whole_lenet();
  // The limit for this graph: a million ops plus eight times its own.
  for (const Rewrite& rewrite :
       std::vector<Rewrite>{Microbatch{std::size_t{1} << 20}, Microbatch{std::size_t{1} << 62},
                            Replicate{.replicas = std::size_t{1} << 20},
                            Replicate{.replicas = 20'000, .collective = Collective::ring, .bucket = Bytes{1}},
                            Replicate{.replicas = 65'536, .collective = Collective::tree, .bucket = Bytes{1}},
                            SplitOp{.op = "conv1/conv", .parts = std::size_t{1} << 62}})
    CHECK(refusal(graph, rewrite).code == "too-large");
  const Finding finding = test::finding_of([&] {
    apply_rewrites(graph, std::vector<Rewrite>(4, Microbatch{64}));  // 64^4 microbatches
  });
  CHECK(finding.code == "too-large");
  CHECK(finding.pointer == "/splits/2");
  // For larger graphs the limit is 1,024 times their ops: 1,024 x 1,200 > 2^20 + 8 x 1,200.
  GraphBuilder chain{"chain"};
  for (int op = 0; op < 1200; ++op) chain.add({.name = fmt::format("op{}", op), .type = "Relu"});
  CHECK(refusal(std::move(chain).build(), Microbatch{2000}).help.find("may become 1228800 ops") != std::string::npos);
  // 4 layers of attention on 256 ranks exchange keys and values in each pass, with 256 x 256 sends each: twice in one
  // pass, 4 times in the other.
  const Graph llama = training_graph(
      make_network("llama3_8b:batch=1,seq=256,layers=4,hidden=16,heads=4,kv_heads=2,inner=24,vocabulary=32,fused=1"));
  CHECK(refusal(llama, Replicate{.replicas = 256, .collective = Collective::tree, .context = 256}).code == "too-large");
  // 5,000 branches are one segment, so the copy of each branch waits for the gradients of all: 25 million waits.
  GraphBuilder branches{"branches"};
  Recompute segment;
  for (int i = 0; i < 5000; ++i) {
    const std::string n = std::to_string(i);
    branches.add({.name = "f" + n, .outputs = {{"a" + n, Bytes{4}}}});
    branches.add({.name = "loss" + n, .phase = Phase::backward, .outputs = {{"d" + n, Bytes{4}}}});
    branches.add({.name = "g" + n, .phase = Phase::backward, .inputs = {"d" + n, "a" + n}});
    segment.ops.push_back("f" + n);
  }
  CHECK(refusal(std::move(branches).build(), segment).message == "the ops that run again would wait for 25000000 ops");
  // Rewrites that change nothing still take time.
  CHECK_THROWS_AS(apply_rewrites(graph, std::vector<Rewrite>(50'000, Microbatch{1})), InputError);
}

TEST_CASE("rewrites end where their checkpoint does: before they begin, and among the ops that they make") {
  const Graph graph = whole_lenet();
  for (const Collective collective : {Collective::parameter_server, Collective::ring}) {
    const std::vector<Rewrite> rewrites{Replicate{.replicas = 64, .collective = collective}};
    CHECK_THROWS_AS(apply_rewrites(graph, rewrites, Checkpoint{[] { return true; }}), OutOfTime);
    std::size_t asked = 0, most = 1'000'000;
    const Checkpoint counting{[&] { return ++asked > most; }};
    const Graph replicas = apply_rewrites(graph, rewrites, counting);
    CHECK(asked == 1 + replicas.op_count() / Checkpoint::kLooks);
    CHECK(replicas == apply_rewrites(graph, rewrites));
    most = std::exchange(asked, 0) / 2;
    CHECK_THROWS_AS(apply_rewrites(graph, rewrites, counting), OutOfTime);
    CHECK(asked == most + 1);
    // For a problem, the op times of the new graph are computed as well.
    most = 1 + replicas.op_count() / Checkpoint::kLooks;
    asked = 0;
    const Problem problem{graph, make_cluster(preset_cluster("2xV100"))};
    CHECK_THROWS_AS(apply_rewrites(problem, rewrites, counting), OutOfTime);
    most = 1'000'000;
    CHECK(apply_rewrites(problem, rewrites, counting).graph() == replicas);
  }
  const Graph replicas = data_parallel(graph, {.replicas = 64}).graph;
  const std::vector<Rewrite> split{SplitOp{"conv1/conv@1", SplitDimension::batch, 2}};
  CHECK_THROWS_AS(apply_rewrites(replicas, split, Checkpoint{[] { return true; }}), OutOfTime);
}
