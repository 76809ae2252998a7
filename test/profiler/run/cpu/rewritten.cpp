#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/run/random_groups.hpp"
#include "profiler/validate/outputs.hpp"
#include "profiler/validate/validate.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/rewritten_recipe.hpp"
#include "trainyard/rewrite/split_op.hpp"
#include "trainyard/rewrite/tied_copies.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

const std::string kTinyTransformer = "transformer:batch=8,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4";

const std::string kTinyLlama =
    "llama3_8b:batch=8,seq=8,layers=1,hidden=32,heads=8,kv_heads=4,inner=32,vocabulary=20,fused=1";
const std::string kTinyGpt = "gpt2:batch=8,seq=4,positions=4,layers=1,hidden=16,heads=4,vocabulary=20,fused=1";
const std::string kTinyBert =
    "bert_base:batch=8,seq=4,positions=4,layers=1,hidden=16,heads=4,inner=32,vocabulary=20,fused=1";
const std::string kTinyMixture =
    "mixtral_8x7b:batch=8,seq=4,layers=1,hidden=16,heads=4,kv_heads=2,inner=16,experts=4,vocabulary=20";

/// A training step and its rewritten graph.
struct Rewritten {
  Problem problem, whole;
  TrainingRecipe recipe;
  TrainingStep step;

  Rewritten(TrainingStep given, const std::vector<Rewrite>& rewrites, const std::string& cluster)
      : problem{given.graph, make_cluster(preset_cluster(cluster))}, whole{problem}, step{std::move(given)} {
    problem = apply_rewrites(whole, rewrites);
    recipe = rewritten_recipe(step.recipe, step.graph, rewrites);
  }
  /// Whether a step of the rewritten graph, placed at random, has the loss and parameters of the plain step on one
  /// device.
  bool agrees(std::uint64_t seed) const {
    const Schedule schedule = test::random_groups(problem, seed);
    const auto backend = make_cpu_backend();
    const Workload workload{.recipe = &recipe, .whole_problem = &whole, .whole_recipe = &step.recipe};
    const auto run = backend->prepare(problem, workload, schedule);
    const double loss = run->step().loss;
    return OutputCheck{*backend, problem, workload}.agrees(schedule, *run, loss);
  }
};

bool as_on_one_device(const std::string& network, const std::vector<Rewrite>& rewrites,
                      const std::string& cluster = "2xcpu-core", std::uint64_t seed = 1) {
  return Rewritten{training_step(make_network(network), {.optimizer = Optimizer::adam}), rewrites, cluster}.agrees(
      seed);
}

/// Marks the ops of the first half of the layers, with their colocation groups.
IdMap<OpId, bool> first_half(const Graph& graph) {
  std::vector<std::string> layers;
  for (const OpId op : graph.ops())
    if (graph.phase(op) == Phase::forward && !graph.layer(op).empty() &&
        std::ranges::find(layers, graph.layer(op)) == layers.end())
      layers.push_back(graph.layer(op));
  IdMap<OpId, bool> first;
  for (const OpId op : graph.ops()) {
    const auto at = std::ranges::find(layers, graph.layer(op));
    first.push_back(graph.name(op) != "labels" &&
                    (graph.layer(op).empty() || at - layers.begin() < static_cast<std::ptrdiff_t>(layers.size() / 2)));
  }
  return first;
}

}  // namespace

TEST_CASE("microbatches and replicas compute together what one device computes, by every collective") {
  for (const std::string& network : {std::string{"lenet:batch=8"}, kTinyTransformer,
                                     std::string{"rnnlm:batch=4,steps=3,layers=2,hidden=8,vocabulary=20"}}) {
    CAPTURE(network);
    CHECK(as_on_one_device(network, {Microbatch{4}}));
    CHECK(as_on_one_device(network, {Replicate{.replicas = 2}}));
    for (const Collective collective : {Collective::ring, Collective::halving_doubling, Collective::tree,
                                        Collective::hierarchical, Collective::whole, Collective::parameter_server})
      for (const std::size_t replicas : {2U, 4U}) {
        CAPTURE(static_cast<int>(collective));
        CAPTURE(replicas);
        CHECK(as_on_one_device(network, {Replicate{.replicas = replicas, .collective = collective, .per_node = 2}},
                               "4xcpu-core", replicas));
      }
    CHECK(as_on_one_device(network, {Replicate{.replicas = 2, .collective = Collective::whole}, Microbatch{2}}));
    CHECK(as_on_one_device(
        network, {Microbatch{2}, Replicate{.replicas = 2, .collective = Collective::ring, .bucket = Bytes{1000}}}));
  }
}

TEST_CASE("samples are told from rows and layers that are as many") {
  for (const char* network : {"gpt2:batch=4,seq=4,positions=4,layers=1,hidden=16,heads=4,vocabulary=20",
                              "rnnlm:batch=4,steps=3,layers=4,hidden=8,vocabulary=20",
                              "rnnlm:batch=4,steps=3,layers=1,hidden=8,vocabulary=20"}) {
    CAPTURE(network);
    CHECK(as_on_one_device(network, {Microbatch{4}}));
    CHECK(as_on_one_device(network, {Replicate{.replicas = 2}, Microbatch{2}}));
  }
}

TEST_CASE("replicas that shard state, gradients and weights compute what one device computes") {
  for (const std::size_t zero : {1U, 2U, 3U})
    for (const Collective collective : {Collective::ring, Collective::whole})
      for (const std::size_t replicas : {2U, 4U}) {
        CAPTURE(zero);
        CAPTURE(static_cast<int>(collective));
        CAPTURE(replicas);
        const Replicate shards{.replicas = replicas, .collective = collective, .zero = zero, .bucket = Bytes{20'000}};
        CHECK(as_on_one_device("lenet:batch=8", {shards}, "4xcpu-core", zero));
        CHECK(as_on_one_device("lenet:batch=8", {shards, Microbatch{2}}, "4xcpu-core", zero));
        const TrainingStep fine = training_step(make_network("lenet:batch=8"), {.granularity = Granularity::fine});
        CHECK(Rewritten{fine, {shards, Microbatch{2}}, "4xcpu-core"}.agrees(zero));
      }
}

TEST_CASE("tensor ranks compute together what one device computes") {
  for (const std::string& network : {std::string{"lenet:batch=4"}, kTinyTransformer})
    for (const Collective collective : {Collective::ring, Collective::whole}) {
      CAPTURE(network);
      CAPTURE(static_cast<int>(collective));
      const TensorParallel two{.ranks = 2, .collective = collective};
      CHECK(as_on_one_device(network, {two}));
      CHECK(as_on_one_device(network, {two, Microbatch{2}}, "4xcpu-core"));
      CHECK(as_on_one_device(network, {two, Replicate{.replicas = 2, .collective = collective}}, "4xcpu-core"));
    }
}

TEST_CASE("ranks read their heads of a bias that all samples have, and add up its gradient") {
  for (const char* batch : {"1", "2", "4"}) {
    CAPTURE(batch);
    const std::string network =
        std::string{"t5_small:layers=1,seq=6,targets=4,hidden=16,heads=2,head_width=4,inner=16,vocabulary=20,batch="} +
        batch;
    CHECK(as_on_one_device(network, {TensorParallel{.ranks = 2}}));
    if (batch[0] == '4') CHECK(as_on_one_device(network, {Replicate{.replicas = 2}, Microbatch{2}}));
  }
}

TEST_CASE("ranks share products behind slices of a sequence, and add gradients of which only one rank has the others") {
  for (const char* network :
       {"nmt:batch=4,steps=3,hidden=8,vocabulary=20,layers=2", "gnmt:batch=4,steps=3,hidden=8,vocabulary=20,layers=3"})
    for (const Granularity granularity : {Granularity::op, Granularity::fine}) {
      CAPTURE(network);
      CAPTURE(static_cast<int>(granularity));
      const TrainingStep step = training_step(make_network(network), {.granularity = granularity});
      const TensorParallel two{.ranks = 2, .collective = Collective::whole};
      CHECK(Rewritten{step, {two}, "2xcpu-core"}.agrees(1));
      CHECK(Rewritten{step, {two, Replicate{.replicas = 2}, Microbatch{2}}, "4xcpu-core"}.agrees(2));
    }
}

TEST_CASE("ranks that share the sequence between products, or a vocabulary, compute what one device computes") {
  for (const Collective collective : {Collective::ring, Collective::whole}) {
    CAPTURE(static_cast<int>(collective));
    const TensorParallel rows{.ranks = 2, .collective = collective, .sequence = true};
    CHECK(as_on_one_device(kTinyTransformer, {rows}));
    CHECK(as_on_one_device(kTinyLlama, {rows}));
    CHECK(as_on_one_device(kTinyLlama, {rows, Replicate{.replicas = 2, .collective = collective}, Microbatch{2}},
                           "4xcpu-core"));
    for (const std::size_t zero : {1U, 2U, 3U})
      CHECK(as_on_one_device(kTinyGpt, {rows, Replicate{.replicas = 2, .collective = collective, .zero = zero}},
                             "4xcpu-core", zero));
    // Tables of at least 8,192 rows are divided among the ranks.
    CHECK(as_on_one_device("llama3_8b:batch=2,seq=4,layers=1,hidden=8,heads=2,kv_heads=2,inner=16,vocabulary=8192",
                           {TensorParallel{.ranks = 2, .collective = collective}}));
  }
}

TEST_CASE("gradients that ranks divide by rows, and values seen through slices, are divided into microbatches") {
  // Four ranks cannot divide two heads: in the decoder, they divide only the sum of gradients by rows.
  CHECK(as_on_one_device(
      "t5_small:batch=4,seq=8,targets=4,layers=1,hidden=16,heads=2,head_width=4,inner=16,"
      "vocabulary=20",
      {TensorParallel{.ranks = 4, .collective = Collective::whole, .sequence = true}, Microbatch{4}}, "4xcpu-core"));
  // Attention is whole on each rank, with the gradient of the packed queries, keys and values.
  CHECK(as_on_one_device("gpt2:batch=8,seq=4,positions=4,layers=1,hidden=4,heads=2,vocabulary=24",
                         {TensorParallel{.ranks = 4}, Microbatch{2}}, "4xcpu-core"));
  // Keys and values are slices of one product.
  const TrainingStep latent = training_step(
      make_network("deepseek_v3:batch=8,seq=4,layers=1,hidden=16,heads=2,head_width=4,rotary=4,query_rank=8,kv_rank=8,"
                   "dense=1,inner=16,vocabulary=20"));
  const Rewritten parts{latent, {Microbatch{8}}, "2xcpu-core"};
  CHECK(parts.agrees(1));
  for (const OpId op : parts.problem.ops())
    if (const OpRecipe& how = parts.recipe.ops[op]; how.kind == OpRecipe::Kind::slice_gradient) {
      CAPTURE(parts.problem.graph().name(op));
      CHECK(parts.recipe.model.values[how.value].shape.front() == 1);  // of 8 samples
    }
}

TEST_CASE("replicas that share a sequence compute what one device computes, by every exchange") {
  for (const ContextExchange exchange :
       {ContextExchange::all_gather, ContextExchange::all_to_all, ContextExchange::ring})
    for (const Collective collective : {Collective::ring, Collective::whole})
      for (const std::size_t context : {2U, 4U}) {
        CAPTURE(static_cast<int>(exchange));
        CAPTURE(static_cast<int>(collective));
        CAPTURE(context);
        CHECK(as_on_one_device(
            kTinyLlama, {Replicate{.replicas = 4, .collective = collective, .context = context, .exchange = exchange}},
            "4xcpu-core", context));
      }
  CHECK(as_on_one_device(
      kTinyLlama,
      {TensorParallel{.ranks = 2, .collective = Collective::whole},
       Replicate{.replicas = 2, .collective = Collective::whole, .context = 2, .exchange = ContextExchange::ring},
       Microbatch{2}},
      "4xcpu-core"));
  // Ranks that share the rows of a context part drop the elements that one device drops.
  CHECK(as_on_one_device(kTinyGpt,
                         {TensorParallel{.ranks = 2, .sequence = true},
                          Replicate{.replicas = 2, .collective = Collective::ring, .context = 2}, Microbatch{2}},
                         "4xcpu-core"));
}

TEST_CASE("a learned bias of fused attention's scores is each rank's own heads', and its gradient a sum of samples") {
  const std::string t5 =
      "t5_small:batch=8,seq=4,targets=4,layers=2,hidden=16,heads=2,head_width=8,inner=32,vocabulary=20,fused=1";
  CHECK(as_on_one_device(t5, {TensorParallel{.ranks = 2}}));
  CHECK(as_on_one_device(t5, {Replicate{.replicas = 2, .collective = Collective::ring}, Microbatch{2}}));
}

TEST_CASE("replicas that hold different experts compute what one device computes") {
  for (const Collective collective : {Collective::ring, Collective::whole})
    for (const std::size_t experts : {1U, 2U, 4U}) {
      CAPTURE(static_cast<int>(collective));
      CAPTURE(experts);
      CHECK(as_on_one_device(kTinyMixture, {Replicate{.replicas = 4, .collective = collective, .experts = experts}},
                             "4xcpu-core", experts));
      const auto four = [&](std::size_t zero, Bytes bucket) {
        return Replicate{.replicas = 4, .collective = collective, .zero = zero, .bucket = bucket, .experts = experts};
      };
      for (const Bytes bucket : {Bytes{1}, Bytes{1000}, Bytes{1 << 20}})
        CHECK(as_on_one_device(kTinyMixture, {four(1, bucket)}, "4xcpu-core", experts));
      for (const Bytes bucket : {Bytes{1}, Bytes{1 << 20}})
        for (const std::size_t zero : {2U, 3U}) {
          CAPTURE(zero);
          CHECK(as_on_one_device(kTinyMixture, {four(zero, bucket), Microbatch{2}}, "4xcpu-core", experts));
        }
    }
  for (const auto& [zero, experts] : {std::pair{2U, 4U}, {3U, 2U}})
    CHECK(as_on_one_device(
        kTinyMixture, {Replicate{.replicas = 8, .collective = Collective::whole, .zero = zero, .experts = experts}},
        "8xcpu-core", experts));
  CHECK(as_on_one_device(
      kTinyMixture,
      {TensorParallel{.ranks = 2}, Replicate{.replicas = 2, .collective = Collective::ring, .experts = 2}},
      "4xcpu-core"));
  CHECK(as_on_one_device(
      kTinyMixture, {Replicate{.replicas = 2, .collective = Collective::ring, .zero = 3, .experts = 2}, Microbatch{2}},
      "4xcpu-core"));
}

/// Copies of tied weights for each layer that reads them, after `rewrites`.
TiedCopies tied_by_layer(const TrainingStep& step, std::span<const Rewrite> rewrites = {}) {
  const Graph graph = apply_rewrites(step.graph, rewrites);
  IdMap<OpId, std::size_t> layers;
  std::vector<std::string> names;
  for (const OpId op : graph.ops()) {
    const auto at = std::ranges::find(names, graph.layer(op));
    layers.push_back(static_cast<std::size_t>(at - names.begin()));
    if (at == names.end()) names.push_back(graph.layer(op));
  }
  return copies_by_place(graph, layers);
}

TEST_CASE("copies of tied weights stay alike, and compute what one device computes") {
  const std::string t5 =
      "t5_small:batch=8,seq=4,targets=4,layers=1,hidden=16,heads=2,head_width=8,inner=32,vocabulary=20,fused=1";
  const std::string divided = "gpt2:batch=8,seq=4,positions=4,layers=1,hidden=8,heads=2,vocabulary=8192,fused=1";
  for (const std::string& network : {kTinyGpt, kTinyBert, t5, divided})
    for (const Granularity granularity : {Granularity::op, Granularity::fine}) {
      CAPTURE(network);
      CAPTURE(static_cast<int>(granularity));
      const TrainingStep step =
          training_step(make_network(network), {.optimizer = Optimizer::adam, .granularity = granularity});
      const TiedCopies tied = tied_by_layer(step);
      REQUIRE_FALSE(tied.copies.empty());
      CHECK(Rewritten{step, {tied}, "2xcpu-core"}.agrees(1));
      CHECK(Rewritten{step, {tied, Microbatch{2}}, "2xcpu-core"}.agrees(2));
      for (const Collective collective : {Collective::ring, Collective::whole})
        for (const std::size_t zero : {0U, 1U, 2U, 3U}) {
          if (network == divided) continue;  // divided among ranks: tested below
          CAPTURE(static_cast<int>(collective));
          CAPTURE(zero);
          const Replicate two{.replicas = 2, .collective = collective, .zero = zero, .bucket = Bytes{2000}};
          if (network == kTinyBert && zero > 0) {  // ZeRO would share the head's bias with the copy
            CHECK_THROWS_WITH_AS((Rewritten{step, {tied, two}, "4xcpu-core"}),
                                 doctest::Contains("copies also share other parameters"), InputError);
            continue;
          }
          CHECK(Rewritten{step, {tied, two, Microbatch{2}}, "4xcpu-core"}.agrees(3));
        }
      const std::vector<Rewrite> ranks{TensorParallel{.ranks = 2}};
      const TiedCopies by_rank = tied_by_layer(step, ranks);
      CHECK(Rewritten{step, {ranks[0], by_rank, Microbatch{2}}, "4xcpu-core"}.agrees(4));
      CHECK(Rewritten{step, {ranks[0], by_rank, Replicate{.replicas = 2, .collective = Collective::ring}}, "4xcpu-core"}
                .agrees(5));
    }
}

TEST_CASE(
    "convolutions whose channels ranks share, and batch norms of each rank's channels, compute what one device does") {
  const auto network = [](bool norm, bool depthwise) {
    zoo::LayerBuilder net{"small-cnn"};
    net.at("stem");
    ValueId x = net.input("x", {4, 3, 8, 8});
    const auto block = [&](std::int64_t channels, std::int64_t groups) {
      x = net.conv(x, {.channels = channels, .kernel = {3, 3}, .padding = {1, 1}, .groups = groups});
      if (norm) x = net.batch_norm(x);
      x = net.relu(x);
    };
    block(8, 1);
    if (depthwise) block(8, 8);
    const ValueId before = x;
    net.at("middle");
    block(8, 1);
    x = net.add(x, before);
    x = net.max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
    block(12, 1);
    net.at("tail");
    x = net.dropout(net.global_average_pool(x), 0.25);
    return std::move(net).finish({net.gemm(net.flatten(x), 6)});
  };
  for (const bool norm : {false, true})
    for (const bool depthwise : {false, true})
      for (const std::vector<Rewrite>& rewrites :
           {std::vector<Rewrite>{TensorParallel{.ranks = 2}},
            std::vector<Rewrite>{TensorParallel{.ranks = 2, .collective = Collective::whole}},
            std::vector<Rewrite>{Replicate{.replicas = 4, .collective = Collective::ring}}}) {
        CAPTURE(norm);
        CAPTURE(depthwise);
        CAPTURE(rewrites.front().index());
        const TrainingStep step = training_step(network(norm, depthwise), {.optimizer = Optimizer::momentum});
        CHECK(Rewritten{step, rewrites, "4xcpu-core"}.agrees(3));
      }
}

TEST_CASE("ops in parts compute what one op computes, in both passes") {
  std::size_t executed = 0;
  const auto check = [&](const TrainingStep& step, OpId op, SplitDimension dimension) {
    CAPTURE(step.graph.name(op));
    CAPTURE(static_cast<int>(dimension));
    const std::vector<Rewrite> rewrites{SplitOp{std::string{step.graph.name(op)}, dimension, 2}};
    CHECK(Rewritten{step, rewrites, "2xcpu-core"}.agrees(op.index()));
    ++executed;
  };
  for (const Granularity granularity : {Granularity::op, Granularity::fine}) {
    const TrainingStep step =
        training_step(make_network("lenet:batch=4"), {.optimizer = Optimizer::momentum, .granularity = granularity});
    for (const SplitDimension dimension : {SplitDimension::batch, SplitDimension::channel})
      for (const OpId op : step.graph.ops())
        if (most_parts(step.graph, op, dimension) >= 2) check(step, op, dimension);
    // 2 dimensions; forward 2 convolutions + 3 products; gradients as many ops, or 3 + 2 + 3 * 3 pieces.
    CHECK(std::exchange(executed, 0) == 2 * (5 + (granularity == Granularity::op ? 5 : 14)));
  }
  const TrainingStep scores =
      training_step(make_network("gpt2:batch=4,seq=4,positions=4,layers=1,hidden=16,heads=2,vocabulary=20"),
                    {.granularity = Granularity::fine});
  for (const OpId op : scores.graph.ops())
    if (scores.graph.type(op).starts_with("MatMulGrad")) check(scores, op, SplitDimension::batch);
  CHECK(executed == 6);  // scores, their product with values, logits
  CHECK(as_on_one_device("lenet:batch=4", {Replicate{.replicas = 2}, SplitOp{"conv2/conv@1", SplitDimension::batch, 2},
                                           SplitOp{"fc1/gemm@2", SplitDimension::batch, 2}}));
}

TEST_CASE("the channels of a convolution in groups are split together with those that they read") {
  zoo::LayerBuilder net{"groups"};
  net.at("a");
  const ValueId x = net.conv(net.input("x", {4, 3, 6, 6}), {.channels = 8, .kernel = {3, 3}});
  net.at("b");
  const ValueId y = net.conv(x, {.channels = 16, .kernel = {3, 3}, .groups = 4, .bias = true});
  net.at("c");
  const TrainingStep step =
      training_step(std::move(net).finish({net.gemm(net.flatten(y), 5)}), {.granularity = Granularity::fine});
  const auto split = [&](const char* op, std::size_t parts) {
    return Rewritten{step, {SplitOp{op, SplitDimension::channel, parts}}, "2xcpu-core"}.agrees(1);
  };
  for (const std::size_t parts : {2U, 4U})
    for (const char* op : {"b/conv", "b/conv/grad_w", "b/conv/grad_b"}) {
      CAPTURE(op);
      CAPTURE(parts);
      CHECK(split(op, parts));
    }
  CHECK_THROWS_WITH_AS(split("b/conv", 8), doctest::Contains("its groups cannot be divided equally"), InputError);
  // Each part makes the gradient of its own channels, and the graph adds up gradients of all of them.
  CHECK_THROWS_WITH_AS(split("b/conv/grad_x", 2), doctest::Contains("is a sum of its parts"), InputError);
}

TEST_CASE("stages of different degrees add up gradients of tied weights, and compute what one device computes") {
  for (const std::string& network : {kTinyGpt, kTinyBert}) {
    const TrainingStep step = training_step(make_network(network), {.optimizer = Optimizer::adam});
    const auto is_first = first_half(step.graph);
    IdMap<OpId, std::size_t> place;
    for (const OpId op : step.graph.ops()) place.push_back(is_first[op] ? 0 : 1);
    const TiedCopies copies = copies_by_place(step.graph, place);
    REQUIRE(copies.copies.size() == 1);
    const TiedCopiesGraph tied = tie_copies(step.graph, copies);
    IdMap<OpId, std::size_t> stage;
    for (const OpId op : tied.graph.ops()) stage.push_back(place[tied.original[op]]);
    stage = places_of_groups(tied.graph, std::move(stage));
    for (const auto& both : {std::pair<StageMesh, StageMesh>{{.replicas = 2}, {.replicas = 1}},
                             {{.replicas = 1}, {.replicas = 2}},
                             {{.replicas = 4}, {.replicas = 2}},
                             {{.replicas = 2}, {.replicas = 2}},
                             {{.ranks = 2}, {.replicas = 2}},
                             {{.replicas = 2}, {.ranks = 2}},
                             {{.replicas = 2, .ranks = 2}, {.ranks = 2}}})
      for (const Collective collective : {Collective::ring, Collective::whole}) {
        const StageMesh &a = both.first, &b = both.second;
        StageMeshes meshes{.stages = {a, b}, .collective = collective, .zero = (a.replicas + b.replicas) / 2};
        for (const OpId op : tied.graph.ops()) meshes.stages[stage[op]].ops.emplace_back(tied.graph.name(op));
        CAPTURE(network);
        CAPTURE(a.replicas);
        CAPTURE(a.ranks);
        CAPTURE(b.replicas);
        CAPTURE(b.ranks);
        CAPTURE(static_cast<int>(collective));
        CHECK(Rewritten{step, {copies, meshes}, "4xcpu-core"}.agrees(7));
        CHECK(Rewritten{step, {copies, meshes, Microbatch{2}}, "4xcpu-core"}.agrees(8));
      }
  }
}

TEST_CASE("stages of different degrees compute together what one device computes") {
  for (const std::string& network : {std::string{"lenet:batch=8"}, kTinyTransformer}) {
    const TrainingStep step = training_step(make_network(network), {.optimizer = Optimizer::adam});
    const auto is_first = first_half(step.graph);
    for (const auto& both : {std::pair<StageMesh, StageMesh>{{.replicas = 2}, {.replicas = 1}},
                             {{.replicas = 1}, {.replicas = 2}},
                             {{.replicas = 4}, {.replicas = 2}},
                             {{.ranks = 2}, {.replicas = 2}},
                             {{.replicas = 2, .ranks = 2}, {.ranks = 2}}})
      for (const Collective collective : {Collective::ring, Collective::whole}) {
        const StageMesh &a = both.first, &b = both.second;
        StageMeshes meshes{.stages = {a, b}, .collective = collective, .zero = a.replicas == 4 ? 1U : 0U};
        for (const OpId op : step.graph.ops())
          meshes.stages[is_first[op] ? 0 : 1].ops.emplace_back(step.graph.name(op));
        CAPTURE(network);
        CAPTURE(a.replicas);
        CAPTURE(a.ranks);
        CAPTURE(b.replicas);
        CAPTURE(b.ranks);
        CAPTURE(static_cast<int>(collective));
        CHECK(Rewritten{step, {meshes}, "4xcpu-core"}.agrees(7));
        CHECK(Rewritten{step, {meshes, Microbatch{2}}, "4xcpu-core"}.agrees(8));
      }
  }
}

TEST_CASE("gradients are clipped by the norm of all of them, which ranks and replicas with shares add up") {
  for (const std::string& network : {std::string{"lenet:batch=8"}, kTinyTransformer, kTinyGpt}) {
    const TrainingStep step =
        training_step(make_network(network), {.optimizer = Optimizer::momentum, .clip_norm = 0.5});
    for (const Collective collective : {Collective::ring, Collective::whole})
      for (const std::size_t zero : {0U, 1U, 2U, 3U}) {
        CAPTURE(network);
        CAPTURE(static_cast<int>(collective));
        CAPTURE(zero);
        const Replicate two{.replicas = 2, .collective = collective, .zero = zero, .bucket = Bytes{2000}};
        const TensorParallel ranks{.ranks = 2, .collective = collective, .sequence = network != "lenet:batch=8"};
        CHECK(Rewritten{step, {two, Microbatch{2}}, "2xcpu-core"}.agrees(1));
        CHECK(Rewritten{step, {ranks, two}, "4xcpu-core"}.agrees(2));
      }
    CHECK(Rewritten{step, {Replicate{.replicas = 2, .collective = Collective::parameter_server}}, "2xcpu-core"}.agrees(
        3));
    if (const TiedCopies tied = tied_by_layer(step); !tied.copies.empty())
      CHECK(Rewritten{step, {tied, Microbatch{2}}, "2xcpu-core"}.agrees(4));
    Rewritten other{step, {Microbatch{2}}, "2xcpu-core"};
    other.recipe.clip_norm = 0.4;
    CHECK_FALSE(other.agrees(1));
  }
}

TEST_CASE("clipping is refused where replicas have different experts, and stages different degrees") {
  const TrainingStep experts = training_step(make_network(kTinyMixture), {.clip_norm = 1});
  CHECK_THROWS_WITH_AS((Rewritten{experts, {Replicate{.replicas = 2, .experts = 2}}, "2xcpu-core"}),
                       doctest::Contains("clipping of gradients is not modelled"), InputError);
  const TrainingStep step = training_step(make_network("lenet:batch=4"), {.clip_norm = 1});
  StageMeshes all{.stages = {{.replicas = 2}}};
  for (const OpId op : step.graph.ops()) all.stages[0].ops.emplace_back(step.graph.name(op));
  CHECK_THROWS_WITH_AS((Rewritten{step, {all}, "2xcpu-core"}),
                       doctest::Contains("clipping of gradients is not modelled"), InputError);
}

TEST_CASE("a strict order of ops and whole collectives is kept, and its prediction replayed") {
  const Rewritten two{training_step(make_network("lenet:batch=4")),
                      {Replicate{.replicas = 2, .collective = Collective::whole}},
                      "2xcpu-core"};
  Schedule schedule = test::random_groups(two.problem, 5);
  for (const OpId op : two.problem.ops())  // each replica on its own device
    schedule.placement[op] = DeviceId{two.problem.graph().name(op).ends_with("@2") ? 1U : 0U};
  schedule.policy = Policy::strict;
  schedule.order.assign(two.problem.device_count(), {});
  for (const OpId op : two.problem.graph().topological_order()) schedule.order[schedule.placement[op]].push_back(op);
  check_schedule(two.problem, schedule);
  const auto backend = make_cpu_backend();
  const Workload workload{.recipe = &two.recipe, .whole_problem = &two.whole, .whole_recipe = &two.step.recipe};
  const Validation result = validate(*backend, two.problem, workload, {{"strict", schedule}},
                                     {.rounds = 1, .most_rounds = 1, .warm = 0, .measured = 2})
                                .front();
  CHECK(result.order_fault == "");
  CHECK(result.order_kept);
  CHECK(result.outputs_agree);
}

/// A random layout for `devices` devices: tensor ranks, replicas of a random kind, microbatches and recomputation.
std::vector<Rewrite> random_layout(const TrainingStep& step, std::size_t devices, bool shares_sequence,
                                   bool has_experts, Random& random) {
  const auto any_of = [&](const auto& list) { return list[random.below(std::size(list))]; };
  const Collective collective = any_of(std::array{Collective::ring, Collective::whole});
  std::vector<Rewrite> layout;
  const std::size_t ranks = any_of(std::array<std::size_t, 2>{1, 2}), replicas = devices / ranks;
  if (ranks > 1)
    layout.emplace_back(TensorParallel{.ranks = ranks, .collective = collective, .sequence = random.below(2) == 0});
  const TiedCopies tied = tied_by_layer(step, layout);
  const bool ties = !tied.copies.empty() && random.below(2) == 0;
  if (ties) layout.emplace_back(tied);
  if (replicas > 1) {
    Replicate replicate{.replicas = replicas, .collective = collective, .bucket = Bytes{1 << (8 + random.below(10))}};
    const std::size_t kind = random.below(4);
    if (kind == 0 && has_experts) {
      replicate.experts = any_of(std::array<std::size_t, 2>{2, replicas});
    } else if (kind == 0 && shares_sequence) {
      replicate.context = any_of(std::array<std::size_t, 2>{2, replicas});
      replicate.exchange =
          any_of(std::array{ContextExchange::all_gather, ContextExchange::all_to_all, ContextExchange::ring});
    } else if (kind == 1) {
      replicate.collective = any_of(std::array{Collective::halving_doubling, Collective::tree, Collective::hierarchical,
                                               Collective::parameter_server});
      replicate.per_node = 2;
    }
    if (kind != 1) replicate.zero = random.below(4);
    if (ties && step.graph.find_op("head/bias/update")) replicate.zero = 0;  // ZeRO is refused here
    layout.emplace_back(replicate);
  }
  if (random.below(2) == 0) layout.emplace_back(Microbatch{2});
  if (layout.size() == 2 && std::holds_alternative<Microbatch>(layout.back()) && random.below(3) == 0 && ranks == 1 &&
      std::holds_alternative<Replicate>(layout.front()))
    std::swap(layout.front(), layout.back());
  if (random.below(3) == 0) {  // recomputes some forward ops
    const Graph graph = apply_rewrites(step.graph, std::span<const Rewrite>{layout});
    Recompute again;
    for (const OpId op : graph.topological_order())
      if (graph.phase(op) == Phase::forward && graph.parameter_bytes(op).count == 0 && !graph.collective(op) &&
          graph.type(op) != "Input" && graph.type(op) != "Relay" && graph.type(op) != "Reduce" &&
          graph.type(op) != "Variable" && random.below(4) == 0)
        (random.below(4) == 0 ? again.also : again.ops).emplace_back(graph.name(op));
    if (!again.ops.empty()) layout.emplace_back(std::move(again));
  }
  return layout;
}

TEST_CASE("random layouts on 2 and 4 devices compute what one device computes") {
  struct Network {
    std::string name;
    bool shares_sequence = false, has_experts = false;
  };
  Random random{2026};
  for (const Network& network :
       {Network{"lenet:batch=8"}, Network{kTinyTransformer}, Network{kTinyLlama, true},
        Network{kTinyMixture, false, true}, Network{kTinyGpt, true}, Network{kTinyBert, true}}) {
    const TrainingStep step = training_step(make_network(network.name), {.optimizer = Optimizer::adam});
    for (const std::size_t devices : {2U, 4U})
      for (int i = 0; i < 12; ++i) {
        const std::vector<Rewrite> layout =
            random_layout(step, devices, network.shares_sequence, network.has_experts, random);
        std::string text;
        for (const Rewrite& rewrite : layout) text += std::to_string(rewrite.index()) + " ";
        CAPTURE(network.name);
        CAPTURE(devices);
        CAPTURE(text);
        CAPTURE(i);
        CHECK(Rewritten{step, layout, std::to_string(devices) + "xcpu-core"}.agrees(random.below(1000)));
      }
  }
}

TEST_CASE("a step of replicas whose gradients do not count as shares of the mean is found out") {
  Rewritten two{training_step(make_network("lenet:batch=4")),
                {Replicate{.replicas = 2, .collective = Collective::ring}},
                "2xcpu-core"};
  REQUIRE(two.agrees(1));
  for (OpRecipe& op : two.recipe.ops) op.seed = 1;
  CHECK_FALSE(two.agrees(1));
}

TEST_CASE("samples that replicas cannot divide are refused by name") {
  CHECK_THROWS_WITH_AS(as_on_one_device("lenet:batch=3", {Replicate{.replicas = 2}}),
                       doctest::Contains("samples of the input"), InputError);
  // Each of 2 replicas has 1 of 2 samples, which 2 microbatches cannot share.
  CHECK_THROWS_WITH_AS(as_on_one_device("lenet:batch=2", {Replicate{.replicas = 2}, Microbatch{2}}),
                       doctest::Contains("the input 'image', 1x1x28x28, "), InputError);
}

TEST_CASE("ranks that have too few samples for replicas are refused as such") {
  const auto refused = [](const std::string& network, const std::vector<Rewrite>& rewrites) {
    try {
      as_on_one_device(network, rewrites);
    } catch (const InputError& error) {
      return std::string{error.what()} + ": " + error.findings()[0].help;
    }
    return std::string{};
  };
  const std::string remedy = ": take a larger batch, or fewer parts: ranks, replicas, microbatches";
  // Each of 2 ranks has 1 of 2 rows of the loss.
  CHECK(refused("lenet:batch=2", {TensorParallel{2}, Replicate{.replicas = 2}}) ==
        "a rank's share of 1 row cannot be divided again among 2 replicas or microbatches" + remedy);
  // Each of 4 ranks has 2 of 8 rows between products.
  CHECK(
      refused("lenet:batch=8", {TensorParallel{.ranks = 4, .sequence = true}, Replicate{.replicas = 4}}) ==
      "executing 'fc1/relu' (Relu) in parts is not supported: dimension 0 of 2x120 cannot be divided equally among 4" +
          remedy);
}
