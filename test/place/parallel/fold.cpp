#include "trainyard/place/parallel/fold.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/cluster/sharing.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/place/kit/layers.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/place/parallel/plan_schedule.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/rewrite/parameter_use.hpp"
#include "trainyard/simulate/noise.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/simulate/steps.hpp"
#include "trainyard/study/summary.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// Plan with p stages of equally many layers, d replicas and t tensor ranks.
StagePlan plan_of(const Layers& layers, std::size_t p, std::size_t d, std::size_t t, std::size_t microbatches) {
  StagePlan plan{.microbatches = microbatches,
                 .replicas = d,
                 .tensor = t,
                 .stages = IdMap<LayerId, std::size_t>(layers.size()),
                 .collective = Collective::whole};
  for (const LayerId layer : layers.ops.ids()) plan.stages[layer] = layer.index() * p / layers.size();
  return plan;
}

std::vector<DeviceId> first_devices(std::size_t count) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < count; ++d) devices.push_back(DeviceId{d});
  return devices;
}

Timeline run(const Problem& problem, const Layers& layers, StagePlan plan, bool fold) {
  plan.fold = fold;
  const auto devices = first_devices(plan.replicas * plan.tensor * (1 + plan.stages[LayerId{layers.size() - 1}]));
  const PlannedSchedule planned = schedule_of(problem, layers, plan, devices);
  check_schedule(scheduled_problem(problem, planned.schedule), planned.schedule);
  const Timeline timeline = simulate(problem, planned.schedule);
  CHECK(timeline.makespan == planned.outcome.makespan);  // on the graph that the rewrites make
  return timeline;
}

/// Folds the plan, and checks that it takes as long as the whole one. Returns the classes of replicas, or 0 if refused.
std::size_t classes_folded(const Problem& problem, const Layers& layers, StagePlan plan) {
  const Timeline whole = run(problem, layers, plan, false);
  const std::size_t used = plan.replicas * plan.tensor * (1 + plan.stages[LayerId{layers.size() - 1}]);
  plan.fold = true;
  std::optional<PlannedSchedule> planned;
  try {
    planned = schedule_of(problem, layers, plan, first_devices(used));
  } catch (const InputError& error) {
    REQUIRE(error.findings().front().code == "too-large");
    return 0;
  }
  CHECK(planned->outcome.makespan == whole.makespan);
  const RunSummary summary = summarize(scheduled_problem(problem, planned->schedule), planned->schedule,
                                       simulate(problem, planned->schedule), LowerBound{"none", {}});
  std::size_t devices = 0;
  Nanoseconds busy{};
  for (const DeviceId device : problem.devices()) {
    devices += summary.images[device];
    busy += whole.devices[device].busy;
  }
  CHECK(devices == used);
  CHECK(summary.busy ==
        doctest::Approx(seconds(busy) / seconds(whole.makespan) / static_cast<double>(problem.device_count())));
  return summary.fold.made;
}

}  // namespace

TEST_CASE("folded plans take what the whole ones take, to the nanosecond, and their devices peak alike") {
  std::size_t folded = 0, refused = 0;
  std::size_t sharing = 0, dividing = 0;
  for (const char* network : {"gpt2:batch=16,seq=64,layers=4", "bert_base:batch=16,seq=64,layers=4",
                              "llama3_8b:batch=16,seq=64,layers=4,hidden=256,heads=16,kv_heads=16,inner=512,fused=1",
                              "mixtral_8x7b:batch=16,seq=64,layers=4,hidden=256,heads=16,kv_heads=16,inner=512,"
                              "experts=8,fused=1"})
    for (const char* cluster : {"8xA100", "4x4xA100", "2x8xH100", "8xV100", "fair 4x4xA100", "fair 2x8xH100"}) {
      const std::string_view name{cluster};
      const bool fair = name.starts_with("fair ");
      ClusterSpec spec = preset_cluster(fair ? name.substr(5) : name);
      if (fair) share_links(spec, Sharing::fair);
      const Problem problem{training_graph(make_network(network)), make_cluster(std::move(spec))};
      const Layers layers = find_layers(problem.graph());
      for (std::uint64_t seed = 0; seed < test::rounds<std::uint64_t>(6); ++seed) {
        Random random = Random::stream(22, seed);
        const std::size_t t = std::size_t{1} << random.below(3), d = std::size_t{1} << random.below(3),
                          p = std::size_t{1} << random.below(3);
        const std::size_t microbatches = std::size_t{1} << random.below(3);
        const std::size_t zero = d > 1 ? random.below(3) : 0;
        const bool again = random.chance(0.3);
        if (t * d < 2 || t * d * p > problem.device_count()) continue;
        CAPTURE(network);
        CAPTURE(cluster);
        CAPTURE(seed);
        StagePlan plan = plan_of(layers, p, d, t, microbatches);
        plan.zero = zero;
        plan.sequence = t > 1 && seed % 2 == 0;
        const std::size_t group = d > 1 ? std::size_t{2} << random.below(d / 2) : 1;
        if (std::string_view{network}.starts_with("llama")) {
          plan.context = group;
          plan.exchange = kContextExchanges[random.below(3)];
        }
        if (std::string_view{network}.starts_with("mixtral")) {
          plan.experts = group;
          if (zero == 2 && seed % 2 == 0) plan.zero = 3;
        }
        if (again)
          plan.recompute.assign(layers.size(), seed % 3 == 0 ? StageRecompute::blocks : StageRecompute::attention);
        const Timeline whole = run(problem, layers, plan, false);
        Timeline one;
        try {
          one = run(problem, layers, plan, true);
        } catch (const InputError& error) {
          REQUIRE(error.findings().front().code == "too-large");
          ++refused;
          continue;
        }
        ++folded;
        sharing += plan.context > 1;
        dividing += plan.experts > 1;
        CHECK(one.makespan == whole.makespan);
        for (const DeviceId device : problem.devices()) {
          if (one.devices[device].busy == Nanoseconds{0}) continue;
          CHECK(one.devices[device].busy == whole.devices[device].busy);
          CHECK(one.devices[device].peak == whole.devices[device].peak);
        }
      }
    }
  CHECK(folded > test::rounds<std::size_t>(20));
  CHECK(sharing > test::rounds<std::size_t>(5));
  CHECK(dividing > test::rounds<std::size_t>(5));
  CHECK((refused > 1 || test::is_sanitized()));
}

TEST_CASE("sixteen tensor ranks, in one NVSwitch domain or over two hosts, fold as eight do") {
  for (const char* cluster : {"2x16xH100", "1x36xGB200", "4x8xH100"}) {
    CAPTURE(cluster);
    const Problem problem{training_graph(make_network("gpt2_medium:batch=4,seq=64,layers=2")),
                          make_cluster(preset_cluster(cluster))};
    const Layers layers = find_layers(problem.graph());
    // 16 heads, one per rank; two replicas.
    StagePlan plan = plan_of(layers, 1, 2, 16, 2);
    CHECK(classes_folded(problem, layers, plan) == 1);
    plan.sequence = true;
    CHECK(classes_folded(problem, layers, plan) == 1);
  }
}

TEST_CASE("random small plans, some on machines with a device or link of its own: refused, or folded as whole") {
  const Graph graph = training_graph(make_network("gpt2:batch=8,seq=16,layers=2"));
  std::size_t folded = 0, several = 0, refused = 0;
  for (const char* cluster : {"8xA100", "4x2xH100", "2x4xA100", "4x4xA100"})
    for (std::uint64_t seed = 0; seed < test::rounds(60U); ++seed) {
      Random random = Random::stream(23, seed);
      const std::size_t t = std::size_t{1} << random.below(3), d = 1 + random.below(4), p = 1 + random.below(4);
      const std::size_t microbatches = 1 + random.below(2), zero = d > 1 ? random.below(3) : 0;
      const bool sequence = t > 1 && random.chance(0.5);
      ClusterSpec spec = preset_cluster(cluster);
      if (spec.fabric && random.chance(0.7)) {
        spec.fabric->leaf = random.chance(0.5) ? FabricSpec::Leaf::rack : FabricSpec::Leaf::rail;
        spec.fabric->hosts_per_leaf = 1 + random.below(2);
        spec.fabric->oversubscription = 1 + static_cast<double>(random.below(2));
      }
      if (t * d < 2 || t * d * p > spec.devices.size() || 8 % (d * microbatches) != 0) continue;
      if (random.chance(0.4))  // the devices of one replica have a byte less
        for (std::size_t at = random.below(d) * t, i = 0; i < p * t; ++i)
          --spec.devices[at + (i / t) * d * t + i % t].memory->count;
      if (const bool slow = random.chance(0.2); slow && !spec.links.empty())
        spec.links[random.below(spec.links.size())].bandwidth.value /= 2;
      CAPTURE(cluster);
      CAPTURE(seed);
      const Problem problem{graph, make_cluster(spec)};
      const Layers layers = find_layers(graph);
      StagePlan plan = plan_of(layers, p, d, t, microbatches);
      plan.zero = zero;
      plan.sequence = sequence;
      const std::size_t classes = classes_folded(problem, layers, plan);
      ++(classes > 0 ? folded : refused);
      several += classes > 1;
    }
  CAPTURE(folded);
  CAPTURE(several);
  CAPTURE(refused);
  CHECK(folded > test::rounds(60U));
  CHECK((several > 5 || test::is_sanitized()));
  CHECK((refused > 2 || test::is_sanitized()));
}

TEST_CASE("plans whose replicas and ranks share oversubscribed uplinks and cores fairly: refused, or folded as whole") {
  const Graph graphs[] = {
      training_graph(make_network("gpt2:batch=32,seq=16,layers=2")),
      training_graph(make_network("llama3_8b:batch=32,seq=16,layers=2,hidden=64,heads=8,kv_heads=8,inner=64,"
                                  "vocabulary=64,fused=1")),
      training_graph(make_network("mixtral_8x7b:batch=32,seq=16,layers=2,hidden=64,heads=8,kv_heads=8,inner=64,"
                                  "experts=8,vocabulary=64,fused=1"))};
  const Layers layers_of[] = {find_layers(graphs[0]), find_layers(graphs[1]), find_layers(graphs[2])};
  std::size_t folded = 0, several = 0, refused = 0, meeting = 0, over_cores = 0, groups[3] = {};
  for (const char* cluster : {"8x4xH100", "16x2xH100", "4x8xH100", "32x1xH100"})
    for (std::uint64_t seed = 0; seed < test::rounds(36U); ++seed) {
      Random random = Random::stream(24, seed);
      const std::size_t network = seed % 3;
      const Graph& graph = graphs[network];
      const Layers& layers = layers_of[network];
      ClusterSpec spec = preset_cluster(cluster);
      FabricSpec& fabric = *spec.fabric;
      fabric.sharing = Sharing::fair;
      fabric.leaf = random.chance(0.7) ? FabricSpec::Leaf::rack : FabricSpec::Leaf::rail;
      fabric.hosts_per_leaf = std::size_t{1} << random.below(3);
      fabric.oversubscription = static_cast<double>(1U << random.below(4));
      if (random.chance(0.3)) fabric.nics_per_host = 1;
      if (random.chance(0.5)) {
        fabric.hosts_per_pod = fabric.hosts_per_leaf << random.below(2);
        fabric.core_oversubscription = static_cast<double>(1U << random.below(3));
        fabric.core_latency = Nanoseconds{500};
      }
      const std::size_t t = std::size_t{1} << random.below(4), d = std::size_t{1} << random.below(4),
                        p = std::size_t{1} << random.below(3);
      const std::size_t microbatches = 1 + random.below(2), zero = d > 1 ? random.below(3) : 0;
      if (t * d < 2 || t * d * p > spec.devices.size()) continue;
      if (random.chance(0.2))  // the devices of one replica have a byte less
        for (std::size_t at = random.below(d) * t, i = 0; i < p * t; ++i)
          --spec.devices[at + (i / t) * d * t + i % t].memory->count;
      CAPTURE(cluster);
      CAPTURE(seed);
      const Problem problem{graph, make_cluster(spec)};
      StagePlan plan = plan_of(layers, p, d, t, microbatches);
      plan.zero = zero;
      plan.sequence = t > 1 && random.chance(0.5);
      const std::size_t group = std::size_t{1} << random.below(static_cast<std::uint64_t>(std::bit_width(d)));
      if (network == 1) {
        plan.context = group;
        plan.exchange = kContextExchanges[random.below(3)];
        if (group * t > 8 && plan.exchange == ContextExchange::all_to_all) plan.exchange = ContextExchange::ring;
      }
      if (network == 2) plan.experts = group;
      if (network == 2 && group > 1 && group < d) plan.zero = 0;
      const std::size_t classes = classes_folded(problem, layers, plan);
      ++(classes > 0 ? folded : refused);
      if (classes == 0) continue;
      several += classes > 1;
      groups[network] += group > 1;
      over_cores += fabric.core_count() > 0 && t * d * p * 2 > spec.devices.size();
      // On serial links folding is refused, because transfers of images would take turns there.
      fabric.sharing = Sharing::serial;
      plan.fold = true;
      meeting +=
          test::contains(test::finding_of([&] {
                           schedule_of(Problem{graph, make_cluster(spec)}, layers, plan, first_devices(t * d * p));
                         }).message,
                         "take turns");
    }
  CAPTURE(folded);
  CAPTURE(refused);
  CAPTURE(several);
  CAPTURE(meeting);
  CAPTURE(over_cores);
  CHECK(folded > test::rounds(80U));
  CHECK(meeting > test::rounds(20U));
  for (const std::size_t some : {refused, several, over_cores, groups[1], groups[2]})
    CHECK((some > 5 || test::is_sanitized()));
}

TEST_CASE("two steps of a folded plan share links with what it stands for, as two of the whole one") {
  const Graph graph = training_graph(make_network("gpt2:batch=32,seq=16,layers=2"));
  const Layers layers = find_layers(graph);
  ClusterSpec spec = preset_cluster("8x4xH100");
  spec.fabric->sharing = Sharing::fair;
  spec.fabric->leaf = FabricSpec::Leaf::rack;
  spec.fabric->hosts_per_leaf = 2;
  spec.fabric->oversubscription = 8;
  const Problem problem{graph, make_cluster(spec)};
  for (std::size_t p = 1; p <= 2; ++p) {
    CAPTURE(p);
    StagePlan plan = plan_of(layers, p, 8 / p, 4, 2);
    const auto two_steps = [&](bool fold) {
      plan.fold = fold;
      return simulate_steps(problem, schedule_of(problem, layers, plan, first_devices(32)).schedule, 2);
    };
    const StepTimes whole = two_steps(false), one = two_steps(true);
    CHECK(one.ends == whole.ends);
    const auto busy = [](const StepTimes& run) {
      return summarize(run.problem, run.schedule, run.timeline, LowerBound{"none", {}}).busy;
    };
    CHECK(busy(one) == doctest::Approx(busy(whole)));
    CHECK_THROWS_AS(simulate_steps_noise(one, {.jitter = {1.5}}), InputError);
  }
}

TEST_CASE("groups that share a sequence over links of two speeds fold into two classes") {
  const Problem even{
      training_graph(make_network(
          "llama3_8b:batch=8,seq=16,layers=2,hidden=64,heads=8,kv_heads=8,inner=64,vocabulary=64,fused=1")),
      make_cluster(preset_cluster("8xA100"))};
  const Layers layers = find_layers(even.graph());
  ClusterSpec spec = preset_cluster("8xA100");
  for (std::size_t gpu = 2; gpu <= 3; ++gpu) spec.links[gpu].bandwidth.value /= 2;  // links of the second of two pairs
  const Problem uneven = even.with_machine(make_cluster(spec), even.costs());
  StagePlan plan = plan_of(layers, 1, 4, 1, 2);
  plan.context = 2;
  for (const ContextExchange exchange : kContextExchanges) {
    CAPTURE(static_cast<int>(exchange));
    plan.exchange = exchange;
    CHECK(classes_folded(even, layers, plan) == 1);
    CHECK(classes_folded(uneven, layers, plan) == 2);
  }
}

TEST_CASE("what is not alike is not folded, and the reason names the devices or links") {
  const Graph graph = training_graph(make_network("gpt2:batch=16,seq=64,layers=4"));
  const auto reason = [&](ClusterSpec spec, std::size_t p, std::size_t d, std::size_t t) -> std::string {
    const Problem problem{graph, make_cluster(std::move(spec))};
    std::set<std::pair<std::size_t, std::size_t>> crossings;
    for (std::size_t i = 0; i + 1 < p; ++i) crossings.insert({{i, i + 1}, {i + 1, i}});
    const auto devices = first_devices(p * d * t);
    try {
      return std::to_string(fold_classes(problem, {devices, d, t}, crossings, 8).sizes.size());
    } catch (const InputError& error) {
      const std::string& message = error.findings().front().message;
      return message.substr(message.find("alike: ") + 7);
    }
  };
  CHECK(reason(preset_cluster("8xA100"), 2, 2, 2) == "1");
  // Replica 0 goes from host 0 to 3, on one leaf; replica 1 from host 1 to 4, on two.
  ClusterSpec leaves = preset_cluster("6x2xA100");
  const auto help = [&](std::size_t hosts_per_leaf) {
    leaves.fabric->hosts_per_leaf = hosts_per_leaf;
    const Problem problem{graph, make_cluster(leaves)};
    const auto devices = first_devices(12);
    return test::finding_of([&] { fold_classes(problem, {devices, 3, 2}, {{0, 1}, {1, 0}}, 1); }).help;
  };
  CHECK(help(4) == "give a cluster file with one leaf for all hosts (hosts_per_leaf), or use fewer devices");
  CHECK(help(6).empty());
  ClusterSpec spec = preset_cluster("8xA100");
  spec.devices[3].memory = Bytes{1'000'000'000};
  CHECK(reason(spec, 2, 2, 2) == "tensor ranks 'gpu2' and 'gpu3' differ in kind, memory, gap or links");
  CHECK(reason(spec, 2, 4, 1) == "2");  // the fourth replica is its own class
  spec = preset_cluster("8xA100");
  spec.links[1].bandwidth.value /= 2;
  CHECK(reason(spec, 2, 2, 2) == "tensor ranks 'gpu0' and 'gpu1' differ in kind, memory, gap or links");
  spec = preset_cluster("4x8xH100");
  spec.fabric->sharing = Sharing::fair;
  CHECK(reason(spec, 2, 2, 8) == "1");
  // One network card per host: transfers of two ranks to the next stage meet there.
  spec = preset_cluster("2x8xA100");
  spec.fabric->nics_per_host = 1;
  CHECK(reason(spec, 2, 1, 8).find("transfers of 'gpu0' and 'gpu1' meet on") != std::string::npos);
  spec.fabric->sharing = Sharing::fair;
  CHECK(reason(spec, 2, 1, 8) == "1");
}

TEST_CASE("a plan of one's own is simulated in the detail that is asked for") {
  const Problem problem{training_graph(make_network("gpt2:batch=16,seq=64,layers=4")),
                        make_cluster(preset_cluster("8xA100"))};
  ParallelPlan plan{.data = 2, .tensor = 2, .cuts = {3}, .microbatch = 2};
  plan.recompute = {StageRecompute::no, StageRecompute::no};
  const auto placed = [&](PlanDetail detail) {
    const Schedule schedule = place_by_plan(problem, plan, {.batch = 16, .detail = detail});
    const Folded fold = folded(schedule.rewrites);
    CHECK(fold.devices == (detail == PlanDetail::folded ? 4 : 1));
    CHECK(fold.made == 1);
    return std::pair{simulate(problem, schedule).makespan, scheduled_problem(problem, schedule).op_count()};
  };
  const auto [rings, ring_ops] = placed(PlanDetail::rings);
  const auto [whole, whole_ops] = placed(PlanDetail::whole);
  const auto [one, one_ops] = placed(PlanDetail::folded);
  CHECK(one == whole);
  CHECK(seconds(whole) == doctest::Approx(seconds(rings)).epsilon(0.1));  // rings add gradients between their steps
  CHECK(one_ops < whole_ops / 3);
  CHECK(whole_ops < ring_ops);
  CHECK(place_by_plan(problem, plan, {.batch = 16}) ==
        place_by_plan(problem, plan, {.batch = 16, .detail = PlanDetail::rings}));
}
