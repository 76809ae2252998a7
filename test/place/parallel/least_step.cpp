#include "trainyard/plan/least_step.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/instances.hpp"
#include "support/support.hpp"
#include "support/written_out.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/cost/cost_model.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/parallel/plan_costs.hpp"
#include "trainyard/place/parallel/plan_placer.hpp"
#include "trainyard/place/parallel/plan_setting.hpp"
#include "trainyard/plan/candidates.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

/// Devices under one switch, as on PCIe.
ClusterSpec under_switch(std::size_t devices, BytesPerSecond bandwidth, Nanoseconds latency, Sharing sharing,
                         const Device& device) {
  ClusterSpec spec{.name = "switch", .devices = {}};
  spec.switches.push_back("host");
  for (std::size_t i = 0; i < devices; ++i) {
    const std::string name = "p" + std::to_string(i);
    spec.devices.push_back(device);
    spec.devices.back().name = name;
    spec.links.push_back({.name = "l" + name,
                          .from = name,
                          .to = "host",
                          .bandwidth = bandwidth,
                          .latency = latency,
                          .sharing = sharing});
  }
  return spec;
}

const Device kCpu{.name = "", .kind = "", .device_class = "cpu"};

/// A random network of layers for 8 samples. Each layer reads the one before or, unless it is a `chain`, another one,
/// and maybe a second. Times, weights and activations are random.
Graph random_network(Random& random, std::size_t layers, bool chain = false) {
  GraphBuilder builder{"random"};
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  const auto name = [](std::size_t i) { return "l" + std::to_string(i); };
  std::vector<std::optional<std::size_t>> reads(layers), besides(layers);
  std::vector<std::vector<std::size_t>> readers(layers);
  std::vector<Bytes> weights(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    if (i > 0) reads[i] = chain || random.below(4) > 0 ? i - 1 : random.below(i);
    if (i > 1 && !chain && random.below(3) == 0) besides[i] = random.below(i - 1);
    if (besides[i] == reads[i]) besides[i].reset();
    weights[i] = Bytes{4 * between(100, 200'000)};
    OpSpec op{.name = name(i),
              .layer = name(i),
              .colocate = name(i),
              .parameter_bytes = weights[i],
              .times = {{"cpu", Nanoseconds{8 * between(1'000, 40'000)}}},
              .outputs = {{name(i), Bytes{8 * between(100, 100'000)}}}};
    for (const auto& from : {reads[i], besides[i]})
      if (from) {
        op.inputs.push_back(name(*from));
        readers[*from].push_back(i);
      }
    builder.add(op);
  }
  // Layers that nothing reads are part of the loss, as the last layer is.
  for (std::size_t i = layers; i-- > 0;) {
    std::vector<std::string> above;
    for (const std::size_t reader : readers[i]) above.push_back(name(reader) + ".grad" + name(i));
    if (above.empty()) above.push_back(name(i));
    OpSpec back{.name = name(i) + "/grad",
                .phase = Phase::backward,
                .layer = name(i),
                .colocate = name(i),
                .times = {{"cpu", Nanoseconds{8 * between(1'000, 40'000)}}},
                .inputs = above};
    for (const auto& from : {reads[i], besides[i]})
      if (from) back.outputs.push_back({name(i) + ".grad" + name(*from), Bytes{8 * between(100, 100'000)}});
    if (back.outputs.empty()) back.outputs.push_back({name(i) + ".grad", Bytes{8}});
    builder.add(back);
    builder.add({.name = name(i) + "/gradw",
                 .type = "GradW",
                 .phase = Phase::backward,
                 .layer = name(i),
                 .colocate = name(i),
                 .times = {{"cpu", Nanoseconds{8 * between(1'000, 40'000)}}},
                 .inputs = above,
                 .outputs = {{name(i) + ".weight.grad", weights[i]}}});
  }
  for (std::size_t i = 0; i < layers; ++i)
    builder.add({.name = name(i) + "/update",
                 .phase = Phase::update,
                 .layer = name(i),
                 .colocate = name(i),
                 .times = {{"cpu", Nanoseconds{between(0, 5'000)}}},
                 .inputs = {name(i) + ".weight.grad"}});
  return std::move(builder).build();
}

/// Plans of a problem, as the placer simulates them.
class Ground {
 public:
  Ground(const Problem& problem, std::size_t batch, PlanDetail detail)
      : options_{.batch = static_cast<std::int64_t>(batch), .detail = detail}, setting_{problem, options_} {}

  ChainOfBlocks& chain() { return setting_.chain; }
  Outcome outcome(const ParallelPlan& plan) const { return setting_.planned(plan).outcome; }
  Nanoseconds step(const ParallelPlan& plan) const { return outcome(plan).makespan; }

 private:
  PlanPlacerOptions options_;
  PlanSetting setting_;
};

Problem on_four_gpus_under_a_switch(const char* network) {
  return {training_graph(make_network(network)),
          make_cluster(under_switch(4, BytesPerSecond{1e9}, Nanoseconds{5000}, Sharing::serial,
                                    preset_cluster("4xV100").devices.front())),
          CostModel::roofline()};
}

/// Advances to the next cuts into as many stages; false after the last ones.
bool next_cuts(std::vector<std::size_t>& cuts, std::size_t layers) {
  for (std::size_t i = cuts.size(); i-- > 0;)
    if (cuts[i] < layers - (cuts.size() - i)) {
      ++cuts[i];
      for (std::size_t j = i + 1; j < cuts.size(); ++j) cuts[j] = cuts[j - 1] + 1;
      return true;
    }
  return false;
}

const std::vector<PipelineSchedule> kSchedules{PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
                                               PipelineSchedule::zb_h1,       PipelineSchedule::zb_h2,
                                               PipelineSchedule::zb_v,        PipelineSchedule::v_half};

/// Checks the bound of every `usual`-th choice of degrees (test::stride) with up to `most_cuts` cuts and two bucket
/// sizes. Returns the number of plans, and the number of those whose bound is at least half of the step.
std::pair<int, int> check_bounds(const Problem& problem, std::size_t batch, PlanDetail detail, std::size_t usual,
                                 std::size_t most_cuts) {
  Ground ground{problem, batch, detail};
  const LeastCosts least = ground.chain().least_costs();
  const PlanCosts likely = ground.chain().costs();
  const PlanSearchOptions all{.schedules = kSchedules, .most_zero = 3, .most_zero_with_ranks = 3};
  int plans = 0, near = 0;
  std::size_t number = 0;
  each_candidate(likely, all, [&](const ParallelPlan& like) {
    if (number++ % test::stride(usual) != 0) return;
    CAPTURE(describe(like));
    const auto alike = [&](const ParallelPlan& other) { return other == like; };
    const Nanoseconds bound =
        least_step(least, {.schedules = {like.schedule}, .most_zero = 3, .most_zero_with_ranks = 3, .allowed = alike},
                   kLongestTime);
    ParallelPlan plan = like;
    std::iota(plan.cuts.begin(), plan.cuts.end(), std::size_t{1});
    std::size_t cuts = 0;
    do {
      for (const Bytes bucket : {Bytes{0}, Bytes{200'000}}) {
        if (bucket > Bytes{0} && plan.replicas() == 1) continue;
        plan.bucket = bucket;
        const Nanoseconds step = ground.step(plan);
        INFO(describe(plan));
        CHECK(bound <= step);
        ++plans;
        near += 2 * bound >= step;
      }
    } while (++cuts < most_cuts && next_cuts(plan.cuts, likely.layers));
  });
  return {plans, near};
}

}  // namespace

TEST_CASE("no plan's simulated step is below the bound of its degrees: random networks under a switch") {
  Random random{5};
  int plans = 0, near = 0;
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    const BytesPerSecond bandwidth{static_cast<double>(1 + random.below(20)) * 1e9};
    const Problem problem{
        random_network(random, 3 + random.below(3)),
        make_cluster(under_switch(4, bandwidth, Nanoseconds{static_cast<std::int64_t>(random.below(20'000))},
                                  round % 3 == 2 ? Sharing::fair : Sharing::serial, kCpu))};
    const auto [some, of_these] =
        check_bounds(problem, 8, round % 2 == 0 ? PlanDetail::rings : PlanDetail::whole, 1, 100);
    plans += some;
    near += of_these;
  }
  CHECK(near > plans * 3 / 4);
}

TEST_CASE("no plan's simulated step is below the bound of its degrees: collectives as fast as measured") {
  Random random{13};
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    CostModel costs;
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather})
      for (const std::size_t ranks : {2u, 4u}) {
        if (random.below(4) == 0) continue;  // the links give the time
        const auto few = static_cast<std::int64_t>(1'000 + random.below(50'000));
        const auto many = few + static_cast<std::int64_t>(random.below(200'000));
        costs.collectives.push_back(
            {kind, ranks, 1, {{Bytes{10'000}, Nanoseconds{few}}, {Bytes{1'000'000}, Nanoseconds{many}}}, ""});
      }
    const Problem problem{random_network(random, 4),
                          make_cluster(under_switch(4, BytesPerSecond{static_cast<double>(1 + random.below(20)) * 1e9},
                                                    Nanoseconds{5000}, Sharing::serial, kCpu)),
                          costs};
    check_bounds(problem, 8, PlanDetail::whole, 1, 20);
  }
}

TEST_CASE("no plan's simulated step is below the bound of its degrees: several stages a device, whose sums take long") {
  Random random{7};
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    const Problem problem{
        random_network(random, 8),
        make_cluster(under_switch(6, BytesPerSecond{2e8}, Nanoseconds{static_cast<std::int64_t>(random.below(400'000))},
                                  Sharing::serial, kCpu))};
    check_bounds(problem, 8, PlanDetail::whole, 5, 4);
  }
}

TEST_CASE(
    "no plan's simulated step is below the bound of its degrees: hosts, whose all-reduces go by trees or by rings") {
  Random random{11};
  const std::pair<std::size_t, std::size_t> shapes[] = {{4, 1}, {2, 2}, {6, 1}, {4, 2}};  // hosts, devices per host
  for (std::size_t round = 0; round < 4; ++round) {
    CAPTURE(round);
    const auto [hosts, of_each] = shapes[round % 4];
    const auto latency = [&] { return Nanoseconds{static_cast<std::int64_t>(random.below(100'000))}; };
    FabricSpec fabric{.hosts = hosts,
                      .devices_per_host = of_each,
                      .port_bandwidth = BytesPerSecond{static_cast<double>(1 + random.below(20)) * 1e9},
                      .port_latency = latency(),
                      .nics_per_host = random.below(2) == 0 ? of_each : 1,
                      .nic_bandwidth = BytesPerSecond{static_cast<double>(1 + random.below(10)) * 1e9},
                      .nic_latency = latency(),
                      .hosts_per_leaf = hosts};
    if (round % 4 == 3) fabric.sharing = Sharing::fair;
    ClusterSpec spec = test::cluster_of(fabric);
    for (Device& device : spec.devices) device.device_class = kCpu.device_class;
    const Problem problem{random_network(random, 4 + random.below(3)), make_cluster(spec)};
    check_bounds(problem, 8, PlanDetail::whole, 3, 20);
  }
}

TEST_CASE("no plan's simulated step is below the bound of its degrees: tensor ranks") {
  for (const char* network : {"lenet:batch=8", "gpt2:layers=2,batch=4,seq=16,hidden=64,heads=4,vocabulary=256"})
    for (const PlanDetail detail : {PlanDetail::rings, PlanDetail::whole}) {
      CAPTURE(network);
      const Problem problem = on_four_gpus_under_a_switch(network);
      const auto [plans, near] = check_bounds(problem, 4, detail, 7, 4);
      CHECK(near > plans / 2);
    }
}

TEST_CASE("no plan's simulated step is below the bound of its degrees: replicas that hold different experts") {
  for (const PlanDetail detail : {PlanDetail::rings, PlanDetail::whole}) {
    const auto [plans, near] = check_bounds(
        on_four_gpus_under_a_switch("mixtral_8x7b:layers=2,batch=4,seq=16,hidden=64,heads=4,kv_heads=2,inner=64,"
                                    "experts=4,vocabulary=256"),
        4, detail, 3, 2);
    CHECK(plans > 0);
    CHECK(near > plans / 3);
  }
}

TEST_CASE("no plan's simulated step is below the bound of its degrees: the first device and the third are slower") {
  ClusterSpec spec = under_switch(4, BytesPerSecond{1e9}, Nanoseconds{5000}, Sharing::serial,
                                  preset_cluster("4xV100").devices.front());
  for (const std::size_t i : {0u, 2u})
    spec.devices[i] = under_switch(4, {}, {}, Sharing::serial, preset_cluster("4xT4").devices.front()).devices[i];
  for (const char* network : {"lenet:batch=8", "gpt2:layers=2,batch=4,seq=16,hidden=64,heads=4,vocabulary=256"})
    for (const PlanDetail detail : {PlanDetail::rings, PlanDetail::whole}) {
      CAPTURE(network);
      check_bounds({training_graph(make_network(network)), make_cluster(spec), CostModel::roofline()}, 4, detail, 5, 4);
    }
}

TEST_CASE("no plan's simulated step is below the bound of its degrees: ranks add up gradients while they communicate") {
  // Collectives within a host take 60 us, ops 4 to 8 us.
  const FabricSpec fabric{.hosts = 4,
                          .devices_per_host = 2,
                          .port_bandwidth = BytesPerSecond{16.5e9},
                          .port_latency = Nanoseconds{15'060},
                          .nics_per_host = 2,
                          .nic_bandwidth = BytesPerSecond{3.6e9},
                          .nic_latency = Nanoseconds{4213},
                          .hosts_per_leaf = 4};
  ClusterSpec spec = test::cluster_of(fabric);
  for (Device& device : spec.devices) {
    const std::string name = device.name;
    device = preset_cluster("4xV100").devices.front();
    device.name = name;
  }
  const Graph graph = training_graph(make_network("gpt2:layers=2,batch=4,seq=16,hidden=64,heads=4,vocabulary=256"));
  const Problem problem{graph, make_cluster(spec), CostModel::roofline()};
  const auto [plans, near] = check_bounds(problem, 4, PlanDetail::whole, 5, 4);
  CHECK(near > plans / 2);
}

TEST_CASE("one stage of tensor ranks whose sums of gradients hold the ranks' links: bounds are near the step") {
  // The bound also covers slices, which may hide communication that microbatches in sequence do not.
  struct Case {
    const char* network;
    std::size_t batch;
    double least;  // bound / step
  };
  for (const Case& each : {Case{"gpt2:batch=8,layers=3", 8, 0.75}, Case{"alexnet:batch=16", 16, 0.9}})
    for (const PlanDetail detail : {PlanDetail::rings, PlanDetail::whole}) {
      CAPTURE(each.network);
      const Problem problem = on_four_gpus_under_a_switch(each.network);
      Ground ground{problem, each.batch, detail};
      const LeastCosts least = ground.chain().least_costs();
      double furthest = 1;
      std::size_t number = 0;
      each_candidate(
          ground.chain().costs(), {.schedules = {PipelineSchedule::one_f_one_b}}, [&](const ParallelPlan& like) {
            if (like.devices_in_row() > 1 || like.tensor == 1 || like.data == 1) return;
            if (number++ % test::stride(1) != 0) return;
            CAPTURE(describe(like));
            const auto alike = [&](const ParallelPlan& other) { return other == like; };
            const Nanoseconds bound = least_step(
                least, {.schedules = {like.schedule}, .most_zero = 3, .most_zero_with_ranks = 3, .allowed = alike},
                kLongestTime);
            for (const Bytes bucket : {Bytes{0}, Bytes{1 << 18}, Bytes{1 << 30}}) {
              ParallelPlan plan = like;
              plan.bucket = bucket;
              const Nanoseconds step = ground.step(plan);
              CHECK(bound <= step);
              // Two microbatches are as many ops as one in two slices, in another order.
              if (each.batch / plan.data / plan.microbatch % 2 == 0) {
                ParallelPlan sliced = plan;
                sliced.microbatch *= sliced.slices = 2;
                CHECK(bound <= ground.step(sliced));
              }
              furthest = std::min(furthest, static_cast<double>(bound.count) / static_cast<double>(step.count));
            }
          });
      CHECK(furthest > each.least);
    }
}

TEST_CASE("what ranks add up of a loss is as much as its microbatch has rows") {
  // 16 x 64 rows of 12 bytes at 100 MB/s take 123 us each way, but 8 us in a microbatch of one sample. When these were
  // not told apart, the bound, 16 times the time that ranks hold their links, was 65.5 ms for a step of 64.7.
  const Problem problem{training_graph(make_network("gpt2:layers=4,batch=16,seq=64,hidden=64,heads=4,vocabulary=256")),
                        make_cluster(under_switch(2, BytesPerSecond{1e8}, Nanoseconds{5000}, Sharing::serial,
                                                  preset_cluster("4xV100").devices.front())),
                        CostModel::roofline()};
  const ParallelPlan plan{.tensor = 2, .sequence = true, .microbatch = 1};
  for (const PlanDetail detail : {PlanDetail::rings, PlanDetail::whole}) {
    Ground ground{problem, 16, detail};
    const PlanSearchOptions alike{.schedules = {plan.schedule},
                                  .allowed = [&](const ParallelPlan& other) { return other == plan; }};
    const Nanoseconds bound = least_step(ground.chain().least_costs(), alike, kLongestTime);
    CHECK(bound <= ground.step(plan));
    CHECK(static_cast<double>(bound.count) > 0.75 * static_cast<double>(ground.step(plan).count));
  }
}

TEST_CASE("no plan that fits by what it recomputes takes less than the bound of its degrees") {
  std::size_t fitting = 0, recomputing = 0, near = 0;
  for (const PlanDetail detail : {PlanDetail::rings, PlanDetail::whole})
    for (const std::int64_t mebibytes : {16, 22}) {
      Device device = preset_cluster("4xV100").devices.front();
      device.memory = Bytes{mebibytes << 20};
      const Problem problem{
          training_graph(make_network("gpt2:layers=4,batch=16,seq=64,hidden=64,heads=4,vocabulary=256")),
          make_cluster(
              under_switch(4, BytesPerSecond{mebibytes < 20 ? 1e8 : 1e9}, Nanoseconds{5000}, Sharing::serial, device)),
          CostModel::roofline()};
      Ground ground{problem, 16, detail};
      const LeastCosts least = ground.chain().least_costs();
      std::size_t number = 0;
      each_candidate(ground.chain().costs(), {.schedules = kSchedules, .most_zero = 3, .most_zero_with_ranks = 3},
                     [&](const ParallelPlan& like) {
                       if (number++ % test::stride(43) != 0) return;
                       const auto alike = [&](const ParallelPlan& other) { return other == like; };
                       const Nanoseconds bound = least_step(
                           least,
                           {.schedules = {like.schedule}, .most_zero = 3, .most_zero_with_ranks = 3, .allowed = alike},
                           kLongestTime);
                       for (const StageRecomputation what :
                            {StageRecomputation{}, StageRecomputation{StageRecompute::attention},
                             StageRecomputation{StageRecompute::attention, 1},
                             StageRecomputation{StageRecompute::blocks}, StageRecomputation{StageRecompute::blocks, 1}})
                         for (const bool everywhere : {false, true}) {
                           ParallelPlan plan = like;
                           plan.recompute.assign(plan.stages(), everywhere ? what : StageRecomputation{});
                           plan.recompute.front() = what;
                           CAPTURE(describe(plan));
                           const Outcome run = ground.outcome(plan);
                           if (run.excess > Bytes{0}) continue;
                           CHECK(bound <= run.makespan);
                           ++fitting;
                           recomputing += what.what != StageRecompute::no;
                           near += 2 * bound > run.makespan;
                         }
                     });
    }
  CHECK(recomputing > fitting / 2);
  CHECK(near > fitting / 4);
}

TEST_CASE("no plan whose stages differ takes less than the bound of such plans") {
  Random random{6};
  for (int round = 0; round < 18; ++round) {
    CAPTURE(round);
    const bool chain = round >= 6;
    const BytesPerSecond bandwidth{static_cast<double>(1 + random.below(20)) * 1e9};
    const Problem problem{
        random_network(random, 3 + random.below(2), chain),
        make_cluster(under_switch(chain ? 4 : 3, bandwidth, Nanoseconds{5000}, Sharing::serial, kCpu))};
    Ground ground{problem, chain ? 8U : 4U, round % 2 == 0 ? PlanDetail::rings : PlanDetail::whole};
    const Nanoseconds bound =
        least_step(ground.chain().least_costs(), {.schedules = {}, .stage_degrees = true}, kLongestTime);
    Nanoseconds best = kLongestTime;
    test::each_plan_of_stage_degrees(ground.chain().costs(),
                                     [&](const ParallelPlan& plan) { best = std::min(best, ground.step(plan)); });
    CHECK(bound <= best);
    CHECK(2 * bound > best);
  }
}
