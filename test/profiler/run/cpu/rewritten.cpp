#include <doctest/doctest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "profiler/run/cpu/cpu_backend.hpp"
#include "profiler/validate/outputs.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/rewritten_recipe.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/layers.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

const std::string kTinyTransformer = "transformer:batch=4,layers=1,hidden=16,heads=2,inner=32,vocabulary=20,seq=4";

const std::string kTinyLlama =
    "llama3_8b:batch=4,seq=8,layers=1,hidden=32,heads=8,kv_heads=4,inner=32,vocabulary=20,fused=1";
const std::string kTinyMixture =
    "mixtral_8x7b:batch=4,seq=4,layers=1,hidden=16,heads=4,kv_heads=2,inner=16,experts=4,vocabulary=20";

/// Groups of ops at random over the devices.
Schedule anywhere(const Problem& problem, std::uint64_t seed) {
  Random random{seed};
  Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0}), .rewrites = problem.rewrites()};
  for (const GroupId group : problem.groups()) {
    const DeviceId device{random.below(problem.device_count())};
    for (const OpId op : problem.group_ops(group)) schedule.placement[op] = device;
  }
  check_schedule(problem, schedule);
  return schedule;
}

/// A step, and the same of a graph that is rewritten.
struct Rewritten {
  Problem problem, whole;
  TrainingRecipe recipe;
  TrainingStep step;

  Rewritten(TrainingStep given, const std::vector<Rewrite>& rewrites, const std::string& cluster)
      : problem{given.graph, make_cluster(preset_cluster(cluster))}, whole{problem}, step{std::move(given)} {
    problem = apply_rewrites(whole, rewrites);
    recipe = rewritten_recipe(step.recipe, step.graph, rewrites);
  }
  /// Loss and parameters after a step, the ops placed at random, are those of one device.
  bool agrees(std::uint64_t seed) const {
    const Schedule schedule = anywhere(problem, seed);
    const auto backend = make_cpu_backend();
    const Workload workload{.recipe = &recipe, .whole_problem = &whole, .whole_recipe = &step.recipe};
    const auto run = backend->prepare(problem, workload, schedule);
    const double loss = run->step().loss;
    return OutputCheck{*backend, problem, workload}.agrees(schedule, *run, loss);
  }
};

bool agrees(const std::string& network, const std::vector<Rewrite>& rewrites, const std::string& cluster = "2xcpu-core",
            std::uint64_t seed = 1) {
  return Rewritten{training_step(make_network(network), {.optimizer = Optimizer::adam}), rewrites, cluster}.agrees(
      seed);
}

}  // namespace

TEST_CASE("microbatches and replicas compute together what one device computes, by every collective") {
  for (const std::string& network : {std::string{"lenet:batch=8"}, kTinyTransformer,
                                     std::string{"rnnlm:batch=4,steps=3,layers=2,hidden=8,vocabulary=20"}}) {
    CAPTURE(network);
    CHECK(agrees(network, {Microbatch{4}}));
    CHECK(agrees(network, {Replicate{.replicas = 2}}));
    for (const Collective collective : {Collective::ring, Collective::halving_doubling, Collective::tree,
                                        Collective::hierarchical, Collective::whole, Collective::parameter_server})
      for (const std::size_t replicas : {2U, 4U}) {
        CAPTURE(static_cast<int>(collective));
        CAPTURE(replicas);
        CHECK(agrees(network, {Replicate{.replicas = replicas, .collective = collective, .per_node = 2}}, "4xcpu-core",
                     replicas));
      }
    CHECK(agrees(network, {Replicate{.replicas = 2, .collective = Collective::whole}, Microbatch{2}}));
    CHECK(agrees(network,
                 {Microbatch{2}, Replicate{.replicas = 2, .collective = Collective::ring, .bucket = Bytes{1000}}}));
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
        CHECK(agrees("lenet:batch=8", {shards}, "4xcpu-core", zero));
        CHECK(agrees("lenet:batch=8", {shards, Microbatch{2}}, "4xcpu-core", zero));
      }
}

TEST_CASE("tensor ranks compute together what one device computes") {
  for (const std::string& network : {std::string{"lenet:batch=4"}, kTinyTransformer})
    for (const Collective collective : {Collective::ring, Collective::whole}) {
      CAPTURE(network);
      CAPTURE(static_cast<int>(collective));
      const TensorParallel two{.ranks = 2, .collective = collective};
      CHECK(agrees(network, {two}));
      CHECK(agrees(network, {two, Microbatch{2}}, "4xcpu-core"));
      CHECK(agrees(network, {two, Replicate{.replicas = 2, .collective = collective}}, "4xcpu-core"));
    }
}

TEST_CASE("ranks that share the sequence between products, or a vocabulary, compute what one device computes") {
  for (const Collective collective : {Collective::ring, Collective::whole}) {
    CAPTURE(static_cast<int>(collective));
    const TensorParallel rows{.ranks = 2, .collective = collective, .sequence = true};
    CHECK(agrees(kTinyTransformer, {rows}));
    CHECK(agrees(kTinyLlama, {rows}));
    CHECK(agrees(kTinyLlama, {rows, Replicate{.replicas = 2, .collective = collective}, Microbatch{2}}, "4xcpu-core"));
    // Tables of 8,192 rows and more are divided.
    CHECK(agrees("llama3_8b:batch=2,seq=4,layers=1,hidden=8,heads=2,kv_heads=2,inner=16,vocabulary=8192",
                 {TensorParallel{.ranks = 2, .collective = collective}}));
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
        CHECK(agrees(kTinyLlama,
                     {Replicate{.replicas = 4, .collective = collective, .context = context, .exchange = exchange}},
                     "4xcpu-core", context));
      }
  CHECK(agrees(
      kTinyLlama,
      {TensorParallel{.ranks = 2, .collective = Collective::whole},
       Replicate{.replicas = 2, .collective = Collective::whole, .context = 2, .exchange = ContextExchange::ring},
       Microbatch{2}},
      "4xcpu-core"));
}

TEST_CASE("replicas that hold different experts compute what one device computes") {
  for (const Collective collective : {Collective::ring, Collective::whole})
    for (const std::size_t experts : {1U, 2U, 4U}) {
      CAPTURE(static_cast<int>(collective));
      CAPTURE(experts);
      CHECK(agrees(kTinyMixture, {Replicate{.replicas = 4, .collective = collective, .experts = experts}}, "4xcpu-core",
                   experts));
    }
  CHECK(agrees(kTinyMixture,
               {TensorParallel{.ranks = 2}, Replicate{.replicas = 2, .collective = Collective::ring, .experts = 2}},
               "4xcpu-core"));
  CHECK(agrees(kTinyMixture,
               {Replicate{.replicas = 2, .collective = Collective::ring, .zero = 3, .experts = 2}, Microbatch{2}},
               "4xcpu-core"));
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

TEST_CASE("a step of replicas whose gradients do not count as shares of the mean is found out") {
  Rewritten two{training_step(make_network("lenet:batch=4")),
                {Replicate{.replicas = 2, .collective = Collective::ring}},
                "2xcpu-core"};
  REQUIRE(two.agrees(1));
  for (OpRecipe& op : two.recipe.ops) op.seed = 1;
  CHECK_FALSE(two.agrees(1));
}

TEST_CASE("samples that replicas cannot divide are refused by name") {
  CHECK_THROWS_WITH_AS(agrees("lenet:batch=3", {Replicate{.replicas = 2}}), doctest::Contains("samples of the input"),
                       InputError);
}
