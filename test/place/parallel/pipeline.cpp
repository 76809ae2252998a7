#include "trainyard/place/parallel/pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "place/instances.hpp"
#include "trainyard/cluster/presets.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/graph/builder.hpp"
#include "trainyard/place/placer.hpp"
#include "trainyard/rewrite/apply_rewrites.hpp"
#include "trainyard/simulate/simulate.hpp"
#include "trainyard/training/training.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;

namespace {

struct Stage {
  std::int64_t forward, backward;  // of one microbatch
};

/// One layer per stage, with times for m microbatches. Tensors between layers have no bytes and take no time.
/// Activations for the backward pass have `kept` bytes per microbatch.
Problem layers(const std::vector<Stage>& stages, std::size_t microbatches, std::size_t devices, std::int64_t kept = 0) {
  const auto m = static_cast<std::int64_t>(microbatches);
  GraphBuilder builder{"layers"};
  const auto name = [](std::size_t i) { return "l" + std::to_string(i); };
  for (std::size_t i = 0; i < stages.size(); ++i)
    builder.add({.name = name(i),
                 .layer = name(i),
                 .colocate = name(i),
                 .parameter_bytes = Bytes{0},
                 .times = {{"cpu", Nanoseconds{m * stages[i].forward}}},
                 .inputs = i ? std::vector{name(i - 1)} : std::vector<std::string>{},
                 .outputs = {{name(i), Bytes{0}}, {name(i) + ".kept", Bytes{m * kept}}}});
  for (std::size_t i = stages.size(); i-- > 0;)
    builder.add({.name = name(i) + "/grad",
                 .phase = Phase::backward,
                 .layer = name(i),
                 .colocate = name(i),
                 .times = {{"cpu", Nanoseconds{m * stages[i].backward}}},
                 .inputs = {i + 1 < stages.size() ? name(i + 1) + ".grad" : name(i), name(i) + ".kept"},
                 .outputs = {{name(i) + ".grad", Bytes{0}}, {name(i) + ".weight.grad", Bytes{0}}}});
  for (std::size_t i = 0; i < stages.size(); ++i)
    builder.add({.name = name(i) + "/update",
                 .phase = Phase::update,
                 .layer = name(i),
                 .colocate = name(i),
                 .times = {{"cpu", Nanoseconds{0}}},
                 .inputs = {name(i) + ".weight.grad"}});
  return {std::move(builder).build(), make_cluster(test::full_mesh(devices))};
}

Timeline run(const Problem& problem, const PipelineOptions& options) {
  const Schedule schedule = place_pipeline(problem, options);
  check_schedule(scheduled_problem(problem, schedule), schedule);
  return simulate(problem, schedule);
}

constexpr auto kGpipe = PipelineSchedule::gpipe;
constexpr auto kInTurn = PipelineSchedule::one_f_one_b;
constexpr auto kInterleaved = PipelineSchedule::interleaved;

Nanoseconds step(std::size_t p, std::size_t m, Stage each, PipelineSchedule schedule, std::size_t chunks = 1) {
  const Problem problem = layers(std::vector<Stage>(p * chunks, each), m, p);
  return run(problem, {.schedule = schedule, .microbatches = m, .chunks = chunks}).makespan;
}

}  // namespace

TEST_CASE("p equal stages and m microbatches take (m + p - 1)(f + b), by GPipe and by 1F1B") {
  for (const PipelineSchedule each : {kGpipe, kInTurn}) {
    CHECK(step(4, 8, {1, 2}, each) == Nanoseconds{33});    // 11 x 3
    CHECK(step(8, 32, {1, 2}, each) == Nanoseconds{117});  // 39 x 3
    CHECK(step(4, 1, {1, 2}, each) == Nanoseconds{12});    // one batch through all stages
    CHECK(step(4, 2, {3, 5}, each) == Nanoseconds{40});    // fewer microbatches than stages
    CHECK(step(1, 8, {1, 2}, each) == Nanoseconds{24});
  }
}

TEST_CASE("interleaved 1F1B with v chunks a device takes m (f + b) + (p - 1)(f + b) / v") {
  // f = 2 and b = 4 per device, in two chunks: 8 x 6 + 3 x 3. As one stage each: 11 x 6.
  CHECK(step(4, 8, {1, 2}, kInterleaved, 2) == Nanoseconds{57});
  CHECK(step(4, 8, {2, 4}, kInTurn) == Nanoseconds{66});
  // f = 4 and b = 8 in four chunks: 32 x 12 + 7 x 3
  CHECK(step(8, 32, {1, 2}, kInterleaved, 4) == Nanoseconds{405});
  CHECK_THROWS_AS(step(4, 6, {1, 2}, kInterleaved, 2), InputError);
}

TEST_CASE("interleaved over fewer devices, for want of layers, says so") {
  // 5 layers in 2 chunks each are enough for 2 of 4 devices.
  const Schedule schedule =
      place_pipeline(layers(std::vector<Stage>(5, {1, 2}), 4, 4), {.schedule = kInterleaved, .microbatches = 4});
  REQUIRE(schedule.notes.size() == 1);
  CHECK(schedule.notes.front() ==
        "with schedule interleaved (2 stages per device), the 5 layers of 'layers' are enough for only 2 of 4 devices: "
        "use schedule=1f1b, with one stage per device");
  CHECK(place_pipeline(layers(std::vector<Stage>(8, {1, 2}), 4, 4), {.schedule = kInterleaved}).notes.empty());
}

TEST_CASE("the idle share of each device is (p - 1) / (m + p - 1)") {
  const Problem problem = layers(std::vector<Stage>(4, {1, 2}), 8, 4);
  const Timeline timeline = run(problem, {.schedule = kInTurn, .microbatches = 8});
  for (const auto& device : timeline.devices)  // 3 of 11
    CHECK(11 * (timeline.makespan - device.busy) == 3 * timeline.makespan);
}

TEST_CASE("stages that are not equal: F = 1 2 1, B = 2 3 2, for 1, 2, 4 and 8 microbatches") {
  // GPipe: sum F + sum B + (m - 1)(max F + max B) = 11 + 5 (m - 1)
  const std::int64_t gpipe[] = {11, 16, 26, 46}, in_turn[] = {11, 14, 24, 44};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t m = std::size_t{1} << i;
    const Problem problem = layers({{1, 2}, {2, 3}, {1, 2}}, m, 3);
    CHECK(run(problem, {.schedule = kGpipe, .microbatches = m}).makespan == Nanoseconds{gpipe[i]});
    CHECK(run(problem, {.schedule = kInTurn, .microbatches = m}).makespan == Nanoseconds{in_turn[i]});
  }
}

TEST_CASE("GPipe holds the activations of all microbatches, 1F1B those of min(p - s, m) at stage s") {
  for (const std::size_t m : {2u, 8u}) {
    const Problem problem = layers(std::vector<Stage>(4, {1, 2}), m, 4, 1000);
    const Timeline gpipe = run(problem, {.schedule = kGpipe, .microbatches = m});
    const Timeline in_turn = run(problem, {.schedule = kInTurn, .microbatches = m});
    for (std::size_t s = 0; s < 4; ++s) {
      CHECK(gpipe.devices[DeviceId{s}].peak == Bytes{1000 * static_cast<std::int64_t>(m)});
      CHECK(in_turn.devices[DeviceId{s}].peak == Bytes{1000 * static_cast<std::int64_t>(std::min(4 - s, m))});
    }
  }
}

TEST_CASE("with recomputation a stage holds the activations of one microbatch, and runs its forward pass twice") {
  for (const auto how : {PipelineOptions::Recompute::stages, PipelineOptions::Recompute::blocks}) {
    const Problem problem = layers(std::vector<Stage>(4, {1, 2}), 8, 4, 1000);
    const Timeline timeline = run(problem, {.schedule = kGpipe, .microbatches = 8, .recompute = how});
    CHECK(timeline.makespan == Nanoseconds{44});  // 11 x (1 + 1 + 2)
    // held: the copy's output, from its run to the gradient; the forward op's output, while that runs
    for (const auto& device : timeline.devices) CHECK(device.peak == Bytes{1000});
  }
}

TEST_CASE("recomputation starts where nothing else fits") {
  ClusterSpec cluster = test::full_mesh(4);
  for (Device& device : cluster.devices) device.memory = Bytes{2500};
  const Problem roomy = layers(std::vector<Stage>(4, {1, 2}), 8, 4, 1000);
  const Problem tight{roomy.graph(), make_cluster(std::move(cluster))};
  const Timeline timeline = run(tight, {.microbatches = 8});
  CHECK(timeline.fits());
  CHECK(timeline.makespan == Nanoseconds{44});
  CHECK_FALSE(run(tight, {.microbatches = 8, .recompute = PipelineOptions::Recompute::no}).fits());
  CHECK(run(roomy, {.microbatches = 8}).makespan == Nanoseconds{33});
}

TEST_CASE("the tasks of a stage: those of Megatron's example with four devices, two chunks and eight microbatches") {
  // Rank 3 of 4: (2 - 1) x 4 = 4 forward passes first, then forward and backward in turn.
  const auto tasks = pipeline_tasks(kInterleaved, 3, 4, 8, 2);
  CHECK(tasks.size() == 32);
  for (std::size_t k = 0; k < 4; ++k) CHECK(tasks[k] == PipelineTask{Pass::forward, 0, k});
  CHECK(tasks[4] == PipelineTask{Pass::forward, 1, 0});
  CHECK(tasks[5] == PipelineTask{Pass::backward, 1, 0});
  CHECK(tasks[6] == PipelineTask{Pass::forward, 1, 1});
  // Rank 0: 2 x 3 + 4 = 10 forward passes first, of which the last two are the second run of chunk 0.
  const auto first = pipeline_tasks(kInterleaved, 0, 4, 8, 2);
  CHECK(first[9] == PipelineTask{Pass::forward, 0, 5});
  CHECK(first[10] == PipelineTask{Pass::forward, 0, 6});
  CHECK(first[11] == PipelineTask{Pass::backward, 1, 0});
}

TEST_CASE(
    "a network in a pipeline: weights that two stages share stay together, and it is faster than one microbatch") {
  const Problem problem{training_graph(make_network("gpt2:layers=8,batch=16,seq=128")),
                        make_cluster(preset_cluster("4xV100"))};
  const Nanoseconds alone = run(problem, {.microbatches = 1}).makespan;
  for (const PipelineSchedule each : {kGpipe, kInTurn, kInterleaved})
    CHECK(run(problem, {.schedule = each, .microbatches = 8}).makespan < alone);
  CHECK(run(problem, {.microbatches = 8, .stages = PipelineOptions::Stages::pipedream}).fits());
}

TEST_CASE("any network runs in a pipeline, whatever its layers hand back and forth") {
  for (const char* network : {"nmt:layers=2,steps=4,hidden=64,batch=6", "resnet50:batch=9", "nasnet_mobile:batch=9"}) {
    CAPTURE(network);
    const Problem problem{training_graph(make_network(network)), make_cluster(preset_cluster("3xV100"))};
    for (const PipelineSchedule each : {kGpipe, kInTurn, kInterleaved}) {
      const Schedule schedule = place_pipeline(problem, {.schedule = each, .microbatches = 3});
      CHECK_NOTHROW(check_schedule(scheduled_problem(problem, schedule), schedule));
    }
  }
}

TEST_CASE("of few samples a pipeline makes as many microbatches as there are, and its schedule takes") {
  const Problem problem{training_graph(make_network("resnet18:batch=4")), make_cluster(preset_cluster("4xV100"))};
  for (const auto& [schedule, batch] :
       std::vector<std::pair<PipelineSchedule, std::int64_t>>{{kGpipe, 4},
                                                              {kInTurn, 4},
                                                              {kInterleaved, 4},
                                                              {PipelineSchedule::zb_v, 4},
                                                              {PipelineSchedule::v_half, 4},
                                                              {PipelineSchedule::v_min, 4},
                                                              {PipelineSchedule::dualpipe_v, 8}})
    CHECK_NOTHROW(place_pipeline(problem, {.schedule = schedule, .batch = batch}));
  // Each of the two directions over four devices needs four microbatches.
  CHECK_THROWS_AS(place_pipeline(problem, {.schedule = PipelineSchedule::dualpipe_v, .batch = 4}), InputError);
}
