#include "trainyard/plan/plan_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/instances.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/least_memory.hpp"
#include "trainyard/plan/plan_moves.hpp"
#include "trainyard/plan/schedule_bound.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

std::string refusal(const PlanCosts& costs, const ParallelPlan& plan) {
  const Finding finding = test::finding_of([&] { check_plan(costs, plan); });
  return finding.message + ": " + finding.help;
}

/// Two equal layers: 100 + 100 + 100 ns per sample, 40 bytes of weights. 4 samples; links of 10 ns and 1 byte per ns.
PlanCosts two_layers(std::size_t devices, std::int64_t latency = 10) {
  nlohmann::json chain = nlohmann::json::parse(R"({
    "batch": 4, "link": {"latency_ns": 10, "bytes_per_ns": 1}, "state_per_weight_byte": 2,
    "update_ns_per_mb": 0, "memory_bytes": 100000, "layers": [
    {"forward_ns": 100, "input_gradient_ns": 100, "weight_gradient_ns": 100, "weight_bytes": 40, "fixed_ns": 0,
     "input_bytes": 5, "output_bytes": 5, "saved_bytes": 20, "all_reduces": 1}]})");
  chain["devices"] = devices;
  chain["link"]["latency_ns"] = latency;
  chain["layers"].push_back(chain["layers"].front());
  return chain_costs(chain);
}

}  // namespace

TEST_CASE("two layers on two devices: the pipeline, two replicas and two ranks by hand") {
  const PlanCosts costs = two_layers(2);
  // Each device has 2 samples of 600, then a ring of 80 bytes over 2: 2 (10 + 40).
  CHECK(run_plan(costs, {.data = 2, .microbatch = 2}).step == Nanoseconds{1200 + 100});
  // The ring of the second layer's 40 bytes, 2 (10 + 20), starts when the last backward task, of 800, has left that
  // layer. The ring of the first layer's follows the task.
  PlanCosts overlapping = costs;
  overlapping.overlap = true;
  CHECK(run_plan(overlapping, {.data = 2, .microbatch = 2}).step == Nanoseconds{1200 + 60});
  overlapping.bucket = Bytes{1000};  // a single bucket
  CHECK(run_plan(overlapping, {.data = 2, .microbatch = 2}).step == Nanoseconds{1200 + 100});
  CHECK(plan_bound(overlapping, {.data = 2, .microbatch = 2}) <= Nanoseconds{1260});
  // With a latency of 500, one bucket takes 1200 + 2 (500 + 40), and two take longer, 800 + 4 (500 + 20). The bound
  // counts whole buckets: a sum per layer would only prove 1200 + 2 (500 + 20).
  PlanCosts late = two_layers(2, 500);
  late.overlap = true;
  CHECK(plan_bound(late, {.data = 2, .microbatch = 2}) <= Nanoseconds{2280});
  CHECK(plan_bound(late, {.data = 2, .microbatch = 2}) >= Nanoseconds{2280 - 12});
  // Without overlap, two buckets take both latencies, unless the plan asks for one bucket.
  PlanCosts buckets = costs;
  buckets.bucket = Bytes{1};
  CHECK(run_plan(buckets, {.data = 2, .microbatch = 2}).step == Nanoseconds{1200 + 2 * 60});
  CHECK(run_plan(buckets, {.data = 2, .microbatch = 2, .bucket = Bytes{80}}).step == Nanoseconds{1200 + 100});
  // Each layer takes half the time, and sums 20 bytes over two ranks in each pass: 4 x 2 (10 + 10).
  CHECK(run_plan(costs, {.tensor = 2, .microbatch = 4}).step == Nanoseconds{1200 + 160});
  // (4 + 1) x 300, and four transfers of 10 + 5 on the critical path: of the first forward task, of its gradient ...
  CHECK(run_plan(costs, {.cuts = {1}}).step == Nanoseconds{1500 + 60});
  // Weights and gradients 2 x 40, state 80, activations of 20 for two microbatches on the first device, for one on the
  // second.
  CHECK(run_plan(costs, {.cuts = {1}}).peaks == std::vector{Bytes{200}, Bytes{180}});
  // With recomputation, a stage keeps its input, 5 per microbatch, and holds 20 while it runs again.
  CHECK(run_plan(costs, {.cuts = {1}, .recompute = {StageRecompute::blocks, StageRecompute::no}}).peaks.front() ==
        Bytes{80 + 80 + 10 + 20});
  // Recomputing attention alone frees 8 of the 20 bytes. They are back while it runs again, which takes 5 per layer and
  // microbatch.
  PlanCosts attention = costs;
  attention.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree tensor) {
    LayerCost cost = layer(i, samples, tensor);
    cost.scores = Bytes{8};
    cost.scores_forward = Nanoseconds{5};
    return cost;
  };
  CHECK(
      run_plan(attention, {.cuts = {1}, .recompute = {StageRecompute::attention, StageRecompute::no}}).peaks.front() ==
      Bytes{80 + 80 + 2 * 12 + 8});
  CHECK(run_plan(attention, {.recompute = {StageRecompute::attention}}).step ==
        run_plan(costs, {}).step + Nanoseconds{4 * 2 * 5});
  // Recomputing the first of two layers on one device: it keeps 5 per microbatch, the second keeps 20, and 20 are back
  // while the first runs again, 100 per microbatch.
  const ParallelPlan half{.recompute = {{StageRecompute::blocks, 1}}};
  CHECK(run_plan(costs, half).peaks.front() == Bytes{2 * 80 + 2 * 80 + 5 + 20 + 20});
  CHECK(run_plan(costs, half).step == run_plan(costs, {}).step + Nanoseconds{4 * 100});
  const ParallelPlan several{.cuts = {1},
                             .recompute = {{StageRecompute::attention, 1}, {StageRecompute::attention, 3}}};
  CHECK(describe(several) ==
        "2 stages (1f1b), microbatches of 1, recomputing attention of 1 to 3 layers of 2 of 2 stages");
  CHECK(describe(half) == "microbatches of 1, recomputing 1 layer of 1 of 1 stage");
  // With ZeRO 1, each of two replicas holds half of the state.
  CHECK(run_plan(costs, {.data = 2, .microbatch = 2, .zero = 1}).peaks.front() == Bytes{160 + 80 + 80});

  const PlanSearchResult found = search_plans(costs);
  CHECK(found.best.front().run.step == Nanoseconds{1300});
  CHECK(found.exact);
  CHECK(found.bound == Nanoseconds{1300});
  CHECK(describe(found.best.front().plan) == "data 2, microbatches of 1");
}

TEST_CASE("a head that is tied to the embedding has a copy on another device, and both send their sums, by hand") {
  PlanCosts costs = two_layers(2);
  costs.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree tensor) {
    LayerCost cost = layer(i, samples, tensor);
    if (i == 0) return cost;
    cost.tied_weights = cost.weights;
    cost.tied_state = cost.state;
    return cost;
  };
  // The pipeline takes 1560 and ends on the first device. Then 40 bytes go each way: 10 + 40.
  CHECK(run_plan(costs, {.cuts = {1}}).step == Nanoseconds{1560 + 50});
  // Weights, gradients and state take 160, and as much again for the copy on the second device. At the peak, at the
  // end, no activations are held, but the other device's gradients and the sum of both: 2 x 40.
  CHECK(run_plan(costs, {.cuts = {1}}).peaks == std::vector{Bytes{160 + 80}, Bytes{2 * 160 + 80}});
  // A single device holds them once.
  CHECK(run_plan(costs, {}).step == run_plan(two_layers(2), {}).step);
  CHECK(run_plan(costs, {}).peaks == run_plan(two_layers(2), {}).peaks);
}

TEST_CASE("what ranks exchange is of the microbatch's passes: the next one begins behind it, by hand") {
  PlanCosts costs = two_layers(2);
  costs.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    LayerCost cost = layer(i, samples, degree);
    cost.exchanged = Nanoseconds{30 * static_cast<std::int64_t>(samples)};
    return cost;
  };
  // 60 of the 600 ns per sample are exchanges, which nothing hides.
  CHECK(run_plan(costs, {}).step == Nanoseconds{4 * 600});
  CHECK(run_plan(costs, {.microbatch = 4}).step == Nanoseconds{4 * 600});
  // Weights, gradients, state, and the activations of a sample.
  CHECK(run_plan(costs, {}).peaks.front() == Bytes{80 + 80 + 160 + 40});
}

TEST_CASE(
    "replicas with ZeRO 2 scatter each microbatch's gradients, with ZeRO 3 they gather weights besides, by hand") {
  const PlanCosts costs = two_layers(2);
  // Two microbatches of 600, whose tasks hide all scatters, then the ring of 100.
  const ParallelPlan shared{.data = 2, .microbatch = 1, .zero = 2};
  CHECK(run_plan(costs, shared).step == Nanoseconds{1200 + 100});
  // Weights, half of gradients and state, activations of a sample, and both layers' gradients before the scatter.
  CHECK(run_plan(costs, shared).peaks.front() == Bytes{80 + 40 + 80 + 40 + 80});
  // The first task waits for the gather of the first layer's weights: 2 (10 + 20).
  ParallelPlan gathered = shared;
  gathered.zero = 3;
  CHECK(run_plan(costs, gathered).step == Nanoseconds{60 + 1200 + 100});
  CHECK(run_plan(costs, gathered).peaks.front() == Bytes{40 + 40 + 80 + 40 + 80 + 80});
  // With a latency of 500, a gather or scatter of a layer takes 1040. One layer is gathered before all tasks, and two
  // in each of four tasks. Two scatters count, the second of which delays the next gathers. The ring of 80 bytes is
  // last.
  CHECK(run_plan(two_layers(2, 500), gathered).step == Nanoseconds{(1 + 4 * 2 + 2) * 1040 + 2 * (500 + 40)});
  // Adding to the first microbatch's gradients takes 70, or half for shares.
  PlanCosts adding = costs;
  adding.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    LayerCost cost = layer(i, samples, degree);
    cost.accumulation = Nanoseconds{35};
    return cost;
  };
  CHECK(run_plan(adding, shared).step == Nanoseconds{1200 + 35 + 100});
}

TEST_CASE("two stages of replicas with ZeRO 2 and 3 scatter and gather behind their tasks, by hand") {
  // Tasks F of 100 and B of 200 end at 930. Gradients of 40 bytes are summed in 2 (10 + 20).
  ParallelPlan plan{.data = 2, .cuts = {1}, .microbatch = 1, .zero = 1};
  CHECK(run_plan(two_layers(4), plan).step == Nanoseconds{930 + 60});
  plan.zero = 2;  // only the last half of a sum, the gather of weights
  CHECK(run_plan(two_layers(4), plan).step == Nanoseconds{930 + 30});
  plan.zero = 3;  // these costs give a half the time of a sum
  CHECK(run_plan(two_layers(4), plan).step == Nanoseconds{60 + 930});
  // With a latency of 500, each gather and scatter takes 1040, and each transfer 505. Stage 0 gathers before its first
  // F, in F, and once more, and sends at 2080. Stage 1 has F until 3625, gathers for B and scatters until 5705, gathers
  // for its second F until 6745 and for B until 7785, and sends. Stage 0 gathers and scatters from 8290 on.
  CHECK(run_plan(two_layers(4, 500), plan).step == Nanoseconds{8290 + 2 * 1040});
}

TEST_CASE("what ranks exchange waits where it shares links with the scatters of ZeRO 2, by hand") {
  PlanCosts costs = two_layers(2, 500);
  costs.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    LayerCost cost = layer(i, samples, degree);
    cost.exchanged = Nanoseconds{100};
    return cost;
  };
  // Two microbatches of 600, then the ring of 80 bytes: 2 (500 + 40).
  const ParallelPlan plan{.data = 2, .microbatch = 1, .zero = 2};
  CHECK(run_plan(costs, plan).step == Nanoseconds{2 * 600 + 1080});
  // Scatters of both layers, 520 each, and 100 of exchanges occupy the links from 200 on. The first B ends before the
  // last of these. The second F ends after its own 100 behind them, at 1440.
  costs.ranks_share_links = [](const ParallelPlan&, std::size_t) { return true; };
  CHECK(run_plan(costs, plan).step == Nanoseconds{200 + 2 * 520 + 100 + 100 + 400 + 1080});
}

TEST_CASE("additions of a sum keep the device from the last task, launches of updates are not shared, by hand") {
  PlanCosts costs = two_layers(2);
  costs.overlap = true;
  costs.additions = [](const ParallelPlan&, std::size_t, Bytes) { return Nanoseconds{5}; };
  costs.all_reduce = [ring = costs.all_reduce](const ParallelPlan& plan, std::size_t device, Bytes weights) {
    return ring(plan, device, weights) + Nanoseconds{5};
  };
  costs.update = [](Bytes weights, std::size_t shards, std::size_t) {
    return Nanoseconds{weights.count / static_cast<std::int64_t>(shards)};
  };
  costs.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    LayerCost cost = layer(i, samples, degree);
    cost.launches = Nanoseconds{7};
    return cost;
  };
  // The second layer's sum, 65, is done at 1065. Its update, 7 + 40, delays the end of the last task, at 1200 + 5. Then
  // come the first layer's sum and update.
  const ParallelPlan plan{.data = 2, .microbatch = 2};
  CHECK(run_plan(costs, plan).step == Nanoseconds{1200 + 5 + 47 + 65 + 47});
  // With ZeRO 1, an update takes 7 and half of the 40.
  ParallelPlan sharing = plan;
  sharing.zero = 1;
  CHECK(run_plan(costs, sharing).step == Nanoseconds{1200 + 5 + 27 + 65 + 27});
  // Without overlap, the sum and both updates follow the task.
  costs.overlap = false;
  CHECK(run_plan(costs, sharing).step == Nanoseconds{1200 + 105 + 54});
}

TEST_CASE("no buckets make a step shorter than the bound of replicas whose sums overlap") {
  Random random{41};
  int by_sums = 0;
  for (int round = 0; round < test::rounds(60); ++round) {
    CAPTURE(round);
    PlanCosts costs = chain_costs(random_chain(random, 2 + random.below(4), 4, 1'000'000'000));
    costs.overlap = true;
    costs.bucket = Bytes{1};
    const auto one = static_cast<std::int64_t>(random.below(20'000));
    costs.additions = [=](const ParallelPlan&, std::size_t, Bytes weights) {
      return Nanoseconds{one + weights.count / 100};
    };
    costs.all_reduce = [=, ring = costs.all_reduce](const ParallelPlan& plan, std::size_t device, Bytes weights) {
      return ring(plan, device, weights) + costs.additions(plan, device, weights);
    };
    std::optional<Nanoseconds> best;
    for (const std::size_t zero : {0u, 1u})
      for (const std::size_t microbatch : {1u, 2u}) {
        ParallelPlan plan{.data = 4, .microbatch = microbatch, .zero = zero};
        const Nanoseconds bound = plan_bound(costs, plan);
        PlanCosts work = costs;
        work.all_reduce = [](const ParallelPlan&, std::size_t, Bytes) { return Nanoseconds{0}; };
        by_sums += plan_bound(work, plan) < bound;
        for (plan.bucket = Bytes{50'000}; plan.bucket < Bytes{4'000'000}; plan.bucket += Bytes{50'000}) {
          const Nanoseconds step = run_plan(costs, plan).step;
          CHECK(bound <= step);
          best = std::min(best.value_or(step), step);
        }
      }
    const PlanSearchResult found =
        search_plans(costs, {.allowed = [](const ParallelPlan& plan) { return plan.data == 4; }});
    CHECK(found.bound <= *best);
  }
  CHECK(by_sums > test::rounds(40U));
}

TEST_CASE("where a sum's latency is long the search adds gradients in larger buckets") {
  PlanCosts costs = two_layers(2, 1000);
  costs.overlap = true;
  costs.bucket = Bytes{1};
  const auto best =
      search_plans(costs, {.allowed = [](const ParallelPlan& plan) { return plan.data == 2; }}).best.front();
  // A bucket of all 80 bytes after the last task takes 2 (1000 + 40). Two buckets, from 800 on, take 4 (1000 + 20).
  CHECK(best.plan.bucket > Bytes{40});
  CHECK(best.run.step == Nanoseconds{1200 + 2080});
  CHECK(run_plan(costs, {.data = 2, .microbatch = 2}).step == Nanoseconds{800 + 4080});
}

TEST_CASE("a device that takes twice as long has half as many layers, and its memory, by hand") {
  // Six layers of F = B = W = 10 per sample, 4 samples, two devices. The second device (kind 2) and both together (kind
  // 3) take twice as long as the first (kind 1), which is as fast as the fastest (kind 0).
  PlanCosts costs = pipeline_costs({{}, {}, {}, {}, {}, {}}, 4);
  costs.devices = 2;
  costs.kind = [](std::size_t first, std::size_t count) { return first == 1 ? 2 : count == 2 ? 3 : 1; };
  costs.layer = [](std::size_t, std::size_t samples, LayerDegree degree) {
    const Nanoseconds each{static_cast<std::int64_t>(samples) * (degree.kind >= 2 ? 20 : 10)};
    return LayerCost{each, each, each, {}, {}, Bytes{static_cast<std::int64_t>(samples)}, {}, {}};
  };
  // Two replicas of 2 samples are as slow as the second device: 2 x 6 x 60.
  CHECK(run_plan(costs, {.data = 2, .microbatch = 1}).step == Nanoseconds{720});
  // Four layers of 30 before two of 60: (4 + 1) 120. Two before four: 20 + 4 x 240 + 40.
  CHECK(run_plan(costs, {.cuts = {4}}).step == Nanoseconds{600});
  CHECK(run_plan(costs, {.cuts = {2}}).step == Nanoseconds{1020});
  const PlanSearchResult found = search_plans(costs, {.schedules = {PipelineSchedule::one_f_one_b}});
  CHECK(found.best.front().plan == ParallelPlan{.cuts = {4}, .recompute = found.best.front().plan.recompute});
  CHECK(found.exact);
  CHECK(found.bound == Nanoseconds{600});
  // The first device holds two microbatches of its layers. A quarter of the memory of 16 is enough for two layers.
  costs.memory = Bytes{16};
  costs.share_of_memory = [](const ParallelPlan&, std::size_t device) { return device == 0 ? 0.25 : 1.0; };
  const PlanSearchResult tight = search_plans(costs, {.schedules = {PipelineSchedule::one_f_one_b}});
  CHECK(tight.best.front().run.excess(costs.memory) == Bytes{0});
  CHECK(tight.best.front().plan.recomputing(StageRecompute::blocks) > 0);
}

TEST_CASE("the best of all plans of twenty chains is found, and proven") {
  const auto file = reference_data("answers/plans/tiny_plans.json");
  if (!file) return report_skipped("no reference answers here");
  for (const auto& chain : nlohmann::json::parse(read_text(*file))) {
    CAPTURE(chain.at("name").get<std::string>());
    const auto& answer = chain.at("answer");
    PlanCosts costs = chain_costs(chain);
    PlanSearchResult found = search_plans(costs);
    CHECK(found.best.front().run.step.count == answer.at("step_ns"));
    CHECK(found.exact);
    CHECK(found.bound.count == answer.at("step_ns"));
    const auto& given = answer.at("plan");
    ParallelPlan plan{
        .data = given.at("data"),
        .tensor = given.at("tensor"),
        .cuts = given.at("cuts"),
        .microbatch = given.at("microbatch"),
        .schedule = given.at("schedule") == "gpipe" ? PipelineSchedule::gpipe : PipelineSchedule::one_f_one_b,
        .zero = given.at("zero")};
    for (const int again : given.at("recompute"))
      plan.recompute.push_back(again != 0 ? StageRecompute::blocks : StageRecompute::no);
    const PlanStep run = run_plan(costs, plan);
    CHECK(run.step.count == answer.at("step_ns"));
    for (std::size_t i = 0; i < run.peaks.size(); ++i) CHECK(run.peaks[i].count == answer.at("peak_bytes")[i]);
    CHECK(plan_bound(costs, plan) <= run.step);
    costs.memory.reset();
    CHECK(search_plans(costs).best.front().run.step.count == answer.at("unconstrained_step_ns"));
  }
}

TEST_CASE("no plan of random chains, of any schedule, takes less than the bound of its degrees") {
  Random random{7};
  for (int round = 0; round < 12; ++round) {
    const PlanCosts costs = chain_costs(random_chain(random, 4 + random.below(5), 4, 30'000'000));
    PlanSearchOptions options{.kept = 100};
    options.schedules = {PipelineSchedule::gpipe,  PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
                         PipelineSchedule::zb_h1,  PipelineSchedule::zb_h2,       PipelineSchedule::zb_v,
                         PipelineSchedule::v_half, PipelineSchedule::v_min,       PipelineSchedule::dualpipe_v};
    const PlanSearchResult found = search_plans(costs, options);
    CHECK(found.exact);
    for (const RatedPlan& each : found.best) {
      CHECK(found.bound <= each.run.step);
      CHECK(plan_bound(costs, each.plan) <= each.run.step);
      CHECK(schedule_bound(costs, each.plan).bound <= each.run.step);
    }
    options.threads = 3;
    const PlanSearchResult again = search_plans(costs, options);
    REQUIRE(again.best.size() == found.best.size());
    for (std::size_t i = 0; i < found.best.size(); ++i) CHECK(again.best[i].plan == found.best[i].plan);
    CHECK(again.evaluations == found.evaluations);
  }
}

TEST_CASE("two ranks that share the sequence have half of each layer, and all of its weights") {
  PlanCosts costs = two_layers(2);
  costs.layer_degrees = {{1}, {.context = 2}};
  const ParallelPlan plan{.context = 2, .microbatch = 4};
  CHECK(describe(plan) == "context 2 (all-gather), microbatches of 4");
  CHECK(plan.devices() == 2);
  // 4 samples of 600, halved. Two ranks exchange 10 bytes, 2 (10 + 5), forward and backward in two layers. Then a ring
  // of 80 bytes over 2: 2 (10 + 40).
  const PlanStep run = run_plan(costs, plan);
  CHECK(run.step == Nanoseconds{1200 + 4 * 30 + 100});
  // Weights and gradients 2 x 80, state 160, half of the activations of 4 x 2 x 20.
  CHECK(run.peaks == std::vector{Bytes{160 + 160 + 80}});
  CHECK(plan_bound(costs, plan) <= run.step);
  CHECK(refusal(costs, {.context = 3}) ==
        "data 1 x context 3 x tensor 1 x 1 device in a row need 3 devices, and there are 2: use context 2");
  costs.devices = 4;
  CHECK(refusal(costs, {.context = 4}) ==
        "the sequence cannot be divided equally among 4 ranks that exchange rows by all-gather: set context to one of: "
        "1, 2");
  CHECK(refusal(costs, {.context = 2, .exchange = ContextExchange::all_to_all}) ==
        "the sequence or the number of heads cannot be divided equally among 2 ranks that exchange rows by all-to-all: "
        "use context 1, or exchange all-gather");
  PlanCosts scores = costs;
  scores.layer_degrees = {{1}};
  CHECK(refusal(scores, {.context = 2, .exchange = ContextExchange::all_to_all}) ==
        "the network has no attention op whose sequence 2 ranks could share by all-to-all: use context 1, or "
        "use a network whose attention is one op: for networks of the zoo, set fused=1 (gpt2:fused=1)");
  costs.layer_degrees.push_back({2});
  CHECK(refusal(costs, {.tensor = 2, .context = 2}) ==
        "the share of each of 2 tensor ranks cannot be divided equally among 2 ranks that share a sequence by "
        "all-gather: with tensor 2, set context to one of: 1");
  CHECK(refusal(costs, {.data = 2, .context = 2, .experts = 2}) ==
        "context parallelism together with expert parallelism is not modelled: use context 1 or experts 1");
  CHECK(refusal(costs, {.context = 2, .degrees = {{.data = 2}, {}}, .cuts = {1}, .microbatch = 2})
            .starts_with("a plan with degrees for each stage cannot have degrees for all stages too"));
}

TEST_CASE("replicas that hold different experts add up the rest alone, and hold their own state") {
  PlanCosts costs = two_layers(4);
  costs.layer_degrees = {{1}, {.experts = 2}};
  // Experts have 24 of a layer's 40 bytes of weights, and 48 of its 80 bytes of state. Two replicas have half of these
  // each, and exchange tokens in 7.
  costs.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    LayerCost cost = layer(i, samples, degree);
    if (degree.experts == 1) return cost;
    cost.weights = Bytes{16 + 12};
    cost.expert_weights = Bytes{12};
    cost.state = Bytes{32 + 24};
    cost.expert_state = Bytes{24};
    cost.forward += Nanoseconds{7};
    return cost;
  };
  costs.expert_all_reduce = [](const ParallelPlan& plan, std::size_t, Bytes weights) {
    return Nanoseconds{1000 * static_cast<std::int64_t>(plan.data / plan.experts) + weights.count};
  };
  const ParallelPlan two{.data = 2, .microbatch = 2, .experts = 2};
  CHECK(describe(two) == "data 2, experts 2, microbatches of 2");
  // 2 samples of 2 x 300, two exchanges of 7, and a ring of 32 bytes over 2: 2 (10 + 16).
  CHECK(run_plan(costs, two).step == Nanoseconds{1200 + 14 + 52});
  // Weights and gradients 2 x 56, state 112, activations of 2 samples of 40 bytes.
  CHECK(run_plan(costs, two).peaks == std::vector{Bytes{112 + 112 + 80}});
  // Replicas share only the state outside the experts, 64 bytes.
  ParallelPlan sharing = two;
  sharing.zero = 1;
  CHECK(run_plan(costs, sharing).peaks == std::vector{Bytes{112 + 32 + 48 + 80}});
  // Four replicas: a ring of 32 bytes over 4, 6 (10 + 8), and a sum of 24 bytes of experts between two: 2000 + 24.
  const ParallelPlan four{.data = 4, .microbatch = 1, .experts = 2};
  CHECK(run_plan(costs, four).step == Nanoseconds{600 + 14 + 108 + 2000 + 24});
  for (const ParallelPlan& plan : {two, sharing, four}) CHECK(plan_bound(costs, plan) <= run_plan(costs, plan).step);
  // Two replicas divide the 48 bytes of state of their experts, and four the other 64.
  ParallelPlan pairs = four;
  pairs.zero = 1;
  CHECK(run_plan(costs, pairs).step == run_plan(costs, four).step);
  CHECK(run_plan(costs, four).peaks == std::vector{Bytes{112 + 112 + 40}});
  CHECK(run_plan(costs, pairs).peaks == std::vector{Bytes{112 + 16 + 24 + 40}});
  CHECK(plan_bound(costs, pairs) <= run_plan(costs, pairs).step);
  // With ZeRO 2 also the gradients, 24 bytes of experts and 32 of the rest; with 3 also the weights. Layers are
  // buckets: two of 28 bytes are scattered at once, and with 3 one is gathered.
  ParallelPlan scattering = pairs, gathering = pairs;
  scattering.zero = 2;
  gathering.zero = 3;
  CHECK(run_plan(costs, scattering).peaks == std::vector{Bytes{56 + (12 + 8) + (16 + 24) + 56 + 40}});
  CHECK(run_plan(costs, gathering).peaks == std::vector{Bytes{(12 + 8) + (12 + 8) + (16 + 24) + 56 + 28 + 40}});
  for (const ParallelPlan& plan : {scattering, gathering})
    for (const bool overlaps : {false, true}) {
      PlanCosts other = costs;
      other.overlap = overlaps;
      CHECK(plan_bound(other, plan) <= run_plan(other, plan).step);
      // If sums overlap tasks, those of experts too follow all tasks.
      if (overlaps) CHECK(plan_bound(other, plan) >= Nanoseconds{600 + 2000});
      ParallelPlan two_stages = plan;
      two_stages.data = 2;
      two_stages.cuts = {1};
      CHECK(plan_bound(other, two_stages) <= run_plan(other, two_stages).step);
    }
  // The additions of gradients of a second microbatch, 60 of 100 for experts, are of shares.
  PlanCosts adding = costs;
  adding.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    LayerCost cost = layer(i, samples, degree);
    cost.accumulation = Nanoseconds{100};
    if (degree.experts > 1) cost.expert_accumulation = Nanoseconds{60};
    return cost;
  };
  adding.batch = 8;
  PlanCosts none = costs;
  none.batch = 8;
  for (const auto& [zero, experts, added] : {std::tuple{1U, 2U, 200}, {2U, 2U, 2 * (40 / 4 + 60 / 2)}}) {
    const ParallelPlan plan{.data = 4, .microbatch = 1, .zero = zero, .experts = experts};
    CHECK((run_plan(adding, plan).step - run_plan(none, plan).step).count == added);
    CHECK(plan_bound(adding, plan) <= run_plan(adding, plan).step);
  }
  CHECK(refusal(costs, {.data = 4, .experts = 4}) ==
        "the experts cannot be divided equally among 4 replicas: set experts to one of: 1, 2");
  // With all experts on each replica, ZeRO 1 divides their state too: 80 of weights, 80 of gradients, 160 / 4 of state.
  costs.memory = Bytes{210};
  LayerTables tables{costs};
  CHECK(LeastMemory{costs, tables}.may_hold({.data = 4, .microbatch = 1, .zero = 1}));
  costs.memory = Bytes{180};
  CHECK_FALSE(LeastMemory{costs, tables}.may_hold({.data = 4, .microbatch = 1, .zero = 1}));
  costs.memory = Bytes{280};  // too little for all experts of both layers
  const PlanSearchResult found =
      search_plans(costs, {.most_zero = 0, .allowed = [](const ParallelPlan& plan) { return plan.stages() == 1; }});
  CHECK(found.best.front().plan.experts == 2);
  CHECK(found.best.front().run.excess(costs.memory) == Bytes{0});
}

TEST_CASE("two layers whose activations do not fit long enough: recomputation of the first is worth it, by hand") {
  PlanCosts costs = pipeline_costs({{1000, 1000, 1000}, {1000, 1000, 1000}}, 16);
  costs.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    LayerCost cost = layer(i, samples, degree);
    cost.input = Bytes{10};
    cost.saved = Bytes{100};
    cost.accumulation = Nanoseconds{500};
    return cost;
  };
  const ParallelPlan plan{.cuts = {1}};
  // Bound over two devices: work 16 x 6000, additions 2 x 15 x 500, and a fill of 1000 + 2000, in which a device waits
  // until a microbatch has passed the other layer, forward and then backward.
  CHECK(plan_bound(costs, plan) <= Nanoseconds{57000});
  CHECK(plan_bound(costs, plan) >= Nanoseconds{57000 - 12});
  costs.memory = Bytes{100};
  // A microbatch's 100 bytes are held for at least 6000 in the first layer and 3000 in the second. With recomputation,
  // which takes 16 x 1000 more, only 10 are. Two memories of 101. The bound on memory over time has the weight x at
  // which recomputing the first layer pays:
  // 16 x 100 x 6000 x / 202 = 16 x 1000 (1 - x) / 2 + 16 x 10 x 6000 x / 202, x = 0.15756;
  // 56000 (1 - x) + 47525 x + 23762 x = 58409.
  CHECK(plan_bound(costs, plan) <= Nanoseconds{58409});
  CHECK(plan_bound(costs, plan) >= Nanoseconds{58409 - 20});
}

TEST_CASE("no plan that fits takes less than its bound: every schedule, with sums, scores and little memory") {
  Random random{37};
  int fitting = 0, by_memory = 0, by_schedule = 0;
  for (int round = 0; round < test::rounds(4000); ++round) {
    CAPTURE(round);
    const auto schedule = static_cast<PipelineSchedule>(random.below(9));
    const std::size_t p = 1 + random.below(4), chunks = chunks_of(schedule), m = 2 * p * (1 + random.below(3));
    const std::size_t layers = p * chunks + random.below(5);
    std::vector<LayerCost> each;
    for (std::size_t i = 0; i < layers; ++i) {
      const auto draw = [&](std::uint64_t most) { return static_cast<std::int64_t>(random.below(most)); };
      LayerCost cost{.forward = Nanoseconds{100 + draw(900)},
                     .input_gradient = Nanoseconds{100 + draw(900)},
                     .weight_gradient = Nanoseconds{draw(900)},
                     .input = Bytes{draw(20)},
                     .saved = Bytes{20 + draw(200)},
                     .weights = Bytes{draw(50)},
                     .state = Bytes{draw(100)},
                     .accumulation = Nanoseconds{draw(200)},
                     .launches = Nanoseconds{draw(100)}};
      cost.scores = Bytes{draw(static_cast<std::uint64_t>(cost.saved.count))};
      cost.scores_forward = Nanoseconds{draw(100)};
      each.push_back(cost);
    }
    PlanCosts costs = pipeline_costs(std::vector<StageTimes>(layers), m, static_cast<std::int64_t>(random.below(50)));
    costs.layer = [&](std::size_t i, std::size_t, LayerDegree) { return each[i]; };
    ParallelPlan plan{.chunks = chunks, .schedule = schedule};
    for (std::size_t s = 1; s < p * chunks; ++s) plan.cuts.push_back(s * layers / (p * chunks));
    const auto levels = static_cast<std::uint64_t>(1 + random.below(3));
    for (std::size_t s = 0; s < plan.stages(); ++s)
      plan.recompute.push_back(static_cast<StageRecompute>(random.below(levels)));
    const PlanStep run = run_plan(costs, plan);
    const Nanoseconds free = plan_bound(costs, plan);
    CHECK(free <= run.step);
    costs.memory = *std::ranges::max_element(run.peaks);  // just enough
    const Nanoseconds bound = plan_bound(costs, plan);
    CHECK(bound <= run.step);
    CHECK(bound >= free);
    const ScheduleBound proven = schedule_bound(costs, plan);
    CHECK(proven.bound <= run.step);
    by_schedule += proven.bound > bound;
    ++fitting;
    by_memory += bound > free;
  }
  CHECK(fitting == test::rounds(4000U));
  CHECK(by_memory > test::rounds(200U));
  CHECK(by_schedule > test::rounds(2000U));
}

TEST_CASE("where ranks may share the sequence, and replicas all, the best of all plans is found and proven") {
  Random random{29};
  int sharing = 0, scattering = 0;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const std::size_t layers = 2 + random.below(3), devices = 3 + random.below(2);
    nlohmann::json chain = random_chain(random, layers, devices, random.between(4, 20) * 1'000'000);
    chain["batch"] = 1 + random.below(4);  // fewer than devices, so that replicas alone cannot use all devices
    PlanCosts costs = chain_costs(chain);
    costs.layer_degrees = {{1}, {2}, {4}, {.context = 2}, {.context = 4}, {.ranks = 2, .context = 2}};
    std::optional<std::pair<Bytes, Nanoseconds>> best;
    for (const LayerDegree degree : costs.layer_degrees)
      for (const std::size_t data : divisors(costs.batch))
        for (const std::size_t microbatch : divisors(costs.batch / data))
          for (unsigned cut = 0; cut < 1u << (layers - 1); ++cut)
            for (const std::size_t zero : {0u, 1u, 2u, 3u}) {
              ParallelPlan plan{.data = data,
                                .tensor = degree.ranks,
                                .context = degree.context,
                                .microbatch = microbatch,
                                .zero = zero};
              for (std::size_t layer = 1; layer < layers; ++layer)
                if (cut >> (layer - 1) & 1) plan.cuts.push_back(layer);
              if (plan.devices() > devices) continue;
              for (unsigned again = 0; again < 1u << plan.stages(); ++again) {
                plan.recompute.clear();
                for (std::size_t s = 0; s < plan.stages(); ++s)
                  plan.recompute.push_back(again >> s & 1 ? StageRecompute::blocks : StageRecompute::no);
                const PlanStep run = run_plan(costs, plan);
                if (run.excess(costs.memory) == Bytes{0}) CHECK(plan_bound(costs, plan) <= run.step);
                const std::pair outcome{run.excess(costs.memory), run.step};
                if (!best || outcome < *best) best = outcome;
              }
            }
    const PlanSearchOptions options{
        .schedules = {PipelineSchedule::one_f_one_b}, .most_zero = 3, .most_zero_with_ranks = 3};
    REQUIRE(best);
    if (best->first > Bytes{0}) continue;
    const PlanSearchResult found = search_plans(costs, options);
    CHECK(found.best.front().run.step == best->second);
    CHECK(found.bound == best->second);
    CHECK(found.exact);
    sharing += found.best.front().plan.context > 1;
    scattering += found.best.front().plan.zero > 1;
  }
  CHECK(sharing > 3);
  CHECK(scattering > 3);
}

TEST_CASE("where stages may compute some layers again the best of all plans is found and proven") {
  Random random{31};
  int some = 0;
  for (int round = 0; round < test::rounds(60); ++round) {
    CAPTURE(round);
    const std::size_t layers = 3 + random.below(2), devices = 1 + random.below(2);
    const PlanCosts costs = chain_costs(random_chain(random, layers, devices, random.between(12, 32) * 500'000));
    std::optional<Nanoseconds> best;
    for (const std::size_t data : divisors(costs.batch))
      for (const std::size_t microbatch : divisors(costs.batch / data))
        for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}})
          for (const std::size_t tensor : {1u, 2u})
            for (const std::size_t zero : {0u, 1u})
              for (std::size_t first = 0; first <= layers; ++first)
                for (std::size_t second = 0; second <= layers; ++second) {
                  ParallelPlan plan{.data = data, .tensor = tensor, .microbatch = microbatch, .zero = zero};
                  if (cut >= layers || (cut == 0 && second > 0)) continue;
                  if (cut > 0) plan.cuts = {cut};
                  if (plan.devices() > devices || first > (cut > 0 ? cut : layers) || second > layers - cut) continue;
                  plan.recompute = {{StageRecompute::blocks, first}};
                  if (cut > 0) plan.recompute.push_back({StageRecompute::blocks, second});
                  const PlanStep run = run_plan(costs, plan);
                  if (run.excess(costs.memory) > Bytes{0}) continue;
                  CHECK(plan_bound(costs, plan) <= run.step);
                  best = std::min(best.value_or(run.step), run.step);
                }
    PlanSearchOptions options{.schedules = {PipelineSchedule::one_f_one_b}};
    if (!best) continue;
    const PlanSearchResult alone = search_plans(costs, options);
    options.by_layer = true;
    const PlanSearchResult found = search_plans(costs, options);
    CHECK(found.best.front().run.step == *best);
    CHECK(found.bound == *best);
    CHECK(found.exact);
    some += *best < alone.best.front().run.step || alone.best.front().run.excess(costs.memory) > Bytes{0};
  }
  CHECK((some > 3 || test::is_sanitized()));
}

TEST_CASE("two replicas of the first of two layers before one device of the second, by hand") {
  // Two microbatches of 2 samples. Each replica takes one sample of each.
  const PlanCosts costs = two_layers(3);
  const ParallelPlan plan{.degrees = {{.data = 2}, {.data = 1}}, .cuts = {1}, .microbatch = 2};
  CHECK(plan.devices() == 3);
  CHECK(describe(plan) == "data x tensor 2x1 1x1, 2 stages (1f1b), microbatches of 2");
  const PlanStep run = run_plan(costs, plan);
  // 10 bytes of 2 samples cross the cut in 20. First stage: F 0 to 100 and 100 to 200, B 740 to 940 and 1340 to 1540.
  // Second stage: F 120 to 320, B to 720, F to 920, B to 1320.
  CHECK(run.starts[0] == std::vector{Nanoseconds{0}, Nanoseconds{100}, Nanoseconds{740}, Nanoseconds{1340}});
  CHECK(run.starts[1] == std::vector{Nanoseconds{120}, Nanoseconds{320}, Nanoseconds{720}, Nanoseconds{920}});
  // A ring of 40 bytes over 2: 2 (10 + 20).
  CHECK(run.step == Nanoseconds{1540 + 60});
  // Weights and gradients 2 x 40, state 80, activations of two microbatches of one sample, or of one of two.
  CHECK(run.peaks == std::vector{Bytes{200}, Bytes{200}});
  // With ZeRO 1, each replica holds half of the state.
  ParallelPlan sharing = plan;
  sharing.zero = 1;
  CHECK(run_plan(costs, sharing).peaks == std::vector{Bytes{160}, Bytes{200}});
  // Two ranks of the second layer: half the time, and a sum of 20 bytes over the ranks, 2 (10 + 10), in each pass.
  const ParallelPlan ranks{.degrees = {{}, {.tensor = {2}}}, .cuts = {1}, .microbatch = 4};
  CHECK(run_plan(costs, ranks).step == Nanoseconds{400 + 30 + 200 + 40 + 200 + 40 + 200 + 30 + 800});
}

TEST_CASE("of thirty random chains the best of all plans, of equal stages or not, is found and proven") {
  Random random{19};
  int unequal = 0;
  for (int round = 0; round < test::rounds(30); ++round) {
    CAPTURE(round);
    const std::size_t layers = 3 + random.below(2), devices = 3 + random.below(2);
    PlanCosts costs = chain_costs(random_chain(random, layers, devices, random.between(4, 20) * 1'000'000));
    PlanSearchOptions options{.schedules = {PipelineSchedule::one_f_one_b}};
    Nanoseconds best = search_plans(costs, options).best.front().run.step;
    const Nanoseconds equal = best;
    each_plan_of_stage_degrees(costs, [&](const ParallelPlan& plan) {
      const PlanStep run = run_plan(costs, plan);
      if (run.excess(costs.memory) == Bytes{0}) best = std::min(best, run.step);
    });
    options.stage_degrees = true;
    const PlanSearchResult found = search_plans(costs, options);
    CHECK(found.best.front().run.step == best);
    CHECK(found.bound == best);
    CHECK(found.exact);
    unequal += best < equal;
    options.threads = 3;
    const PlanSearchResult again = search_plans(costs, options);
    CHECK(again.best.front().plan == found.best.front().plan);
    CHECK(again.evaluations == found.evaluations);
  }
  CHECK(unequal > test::rounds(5U));
}

TEST_CASE(
    "nine layers on seven devices, too many plans to run all: the best of five of six chains, and 0.8 % from the "
    "sixth's") {
  Random random{23};
  const int rounds = test::rounds(6);
  int found_best = 0;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    PlanCosts costs = chain_costs(random_chain(random, 9, 7, 1));
    costs.memory.reset();
    costs.batch = 16;
    PlanSearchOptions options{.schedules = {PipelineSchedule::one_f_one_b}};
    Nanoseconds best = search_plans(costs, options).best.front().run.step;
    each_plan_of_stage_degrees(costs,
                               [&](const ParallelPlan& plan) { best = std::min(best, run_plan(costs, plan).step); });
    options.stage_degrees = true;
    const PlanSearchResult found = search_plans(costs, options);
    CHECK(!found.exact);
    CHECK(found.bound <= best);
    CHECK(found.best.front().run.step >= best);
    CHECK(100 * (found.best.front().run.step - best) <= best);
    found_best += found.best.front().run.step == best;
    options.threads = 3;
    CHECK(search_plans(costs, options).best.front().plan == found.best.front().plan);
  }
  if (rounds == 6) CHECK(found_best == 5);
}

TEST_CASE("degrees of stages that cannot be are refused with what can") {
  Random random{5};
  const PlanCosts costs = chain_costs(random_chain(random, 4, 4, 30'000'000));
  CHECK(refusal(costs, {.degrees = {{.data = 2}, {}}, .cuts = {2}, .microbatch = 1}) ==
        "a microbatch of 1 sample cannot be divided equally among the 2 replicas of stage 0: use data 1");
  CHECK(refusal(costs, {.degrees = {{.data = 4}, {}}, .cuts = {2}, .microbatch = 4}) ==
        "the stages need 5 devices together, and there are 4: use data 2 in stage 0");
  CHECK(refusal(costs, {.degrees = {{}}, .cuts = {2}}) ==
        "degrees are given for 1 of the devices in a row, and there are 2: give them for each stage, or for none");
  CHECK(refusal(costs, {.data = 2, .degrees = {{}, {}}, .cuts = {2}})
            .starts_with("a plan with degrees for each stage cannot have degrees for all stages too"));
  CHECK(refusal(costs, {.degrees = {{.tensor = {3}}, {}}, .cuts = {2}}) ==
        "the layers cannot be divided equally among 3 ranks: set tensor to one of: 1, 2, 4");
  CHECK(refusal(costs, {.degrees = {{}, {}}, .cuts = {2}, .microbatch = 3}) ==
        "8 samples cannot be divided into microbatches of 3: use microbatches of 2");
}

TEST_CASE("forty layers on sixteen devices: within the bound, no worse than equal stages, and within memory") {
  Random random{3};
  const PlanCosts costs = chain_costs(random_chain(random, 40, 16, 40'000'000));
  const PlanSearchResult found = search_plans(costs);
  const RatedPlan& best = found.best.front();
  CHECK(best.run.excess(costs.memory) == Bytes{0});
  CHECK(found.bound <= best.run.step);
  ParallelPlan equal = best.plan;
  for (std::size_t s = 1; s < equal.stages(); ++s) equal.cuts[s - 1] = s * 40 / equal.stages();
  equal.recompute.assign(equal.stages(), StageRecompute::no);
  const PlanStep run = run_plan(costs, equal);
  CHECK((run.excess(costs.memory) > Bytes{0} || run.step >= best.run.step));
}

TEST_CASE("where time is up while plans are enumerated, those so far are looked at, and no bound is known") {
  PlanCosts costs = pipeline_costs({{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, 64);
  std::size_t asked = 0;
  costs.layer = [&, layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    ++asked;
    return layer(i, samples, degree);
  };
  const PlanSearchResult all = search_plans(costs);
  const std::size_t of_all = std::exchange(asked, 0);
  const PlanSearchResult first = search_plans(costs, {.stop = [] { return true; }});
  CHECK(asked == 4);  // 4 layers of one microbatch size
  CHECK(of_all == 7 * 4);
  CHECK(first.bound == Nanoseconds{0});
  CHECK(!first.exact);
  CHECK(all.bound > Nanoseconds{0});
  CHECK(first.best.front().run.step >= all.best.front().run.step);
}

TEST_CASE("where devices together cannot hold parameters, gradients and state once, the search says how many could") {
  PlanCosts costs = two_layers(2);
  const auto why = [&](std::int64_t memory) -> std::string {
    costs.memory = Bytes{memory};
    return test::finding_of([&] { search_plans(costs); }).help;
  };
  // Two layers with 40 bytes of weights, 40 of gradients and 80 of state: 320.
  CHECK(why(150) == "they need 320 B, and there are 2 devices of 150 B: use 3 or more");
  CHECK(why(160) == "give more devices, or devices with more memory");  // nothing is left for a microbatch
  CHECK_THROWS_WITH_AS(search_plans(costs),
                       "no plan fits: weights, gradients, optimizer state and the activations of one microbatch exceed "
                       "the memory of the devices",
                       InputError);
  // One layer, no ranks: each of four replicas holds 80 of weights and gradients and, with ZeRO 1, 80 / 4 of state.
  costs.layer_degrees = {{1}};
  costs.layers = 1;
  costs.devices = 4;
  CHECK(why(90) == "even data 4, microbatches of 1, ZeRO 1 needs at least 100 B per device, and a device has 90 B");
}

TEST_CASE("moves from a plan lead to others, to each once, and compute nothing again that has no attention") {
  PlanCosts costs = pipeline_costs({{2, 2, 2}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, 8);
  costs.devices = 4;
  costs.memory = Bytes{1'000'000};
  costs.bucket = Bytes{1000};
  costs.layer = [plain = costs.layer](std::size_t layer, std::size_t samples, LayerDegree degree) {
    LayerCost cost = plain(layer, samples, degree);
    cost.saved = Bytes{10};
    return cost;
  };
  const ParallelPlan plan{
      .data = 2, .cuts = {2}, .microbatch = 2, .recompute = {StageRecompute::no, StageRecompute::no}};
  const std::vector<RatedPlan> moves = moves_of(costs, {.most_zero = 1, .by_layer = true}, plan);
  CHECK(moves.size() > 8);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    CHECK(moves[i].plan != plan);
    CHECK(moves[i].plan.recomputing(StageRecompute::attention) == 0);
    for (std::size_t j = 0; j < i; ++j) CHECK(moves[j].plan != moves[i].plan);
  }
}

TEST_CASE("stages with replicas of their own have other buckets and ZeRO stages, and ranks a sequence or none") {
  PlanCosts costs = pipeline_costs({{2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, 8);
  costs.devices = 4;
  costs.bucket = Bytes{1000};
  costs.layer_degrees = {{1}, {2}, {2, true}};
  const ParallelPlan own{.degrees = {{.data = 2}, {.data = 1, .tensor = {2}}}, .cuts = {1}, .microbatch = 2};
  CHECK(bucket_sizes_of(costs, own).size() == 7);
  CHECK(zero_stages_of(costs, own).size() == 3);
  const ParallelPlan none{.degrees = {{.data = 1}, {.data = 1, .tensor = {2}}}, .cuts = {1}, .microbatch = 2};
  CHECK(bucket_sizes_of(costs, none).empty());
  CHECK(zero_stages_of(costs, none).empty());
  // The two replicas of the first stage become two ranks, and the two ranks of the second become replicas.
  ParallelPlan other = own;
  other.degrees[0] = {.data = 1, .tensor = {2}};
  const std::vector<RatedPlan> moved = moves_of(costs, {}, own);
  CHECK(std::ranges::find(moved, other, &RatedPlan::plan) != moved.end());
  other = own;
  other.degrees[1] = {.data = 2};
  CHECK(std::ranges::find(moved, other, &RatedPlan::plan) != moved.end());
  const ParallelPlan ranks{.data = 2, .tensor = 2, .microbatch = 2, .recompute = {StageRecompute::no}};
  ParallelPlan sharing = ranks;
  sharing.sequence = true;
  for (const auto& [from, to] : {std::pair{ranks, sharing}, std::pair{sharing, ranks}}) {
    const std::vector<RatedPlan> moves = moves_of(costs, {}, from);
    CHECK(std::ranges::find(moves, to, &RatedPlan::plan) != moves.end());
  }
}

TEST_CASE("stages split, join, and hand devices to each other, and no move leaves all of them alike") {
  PlanCosts costs = pipeline_costs({{2, 2, 2}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, 8);
  costs.devices = 4;
  costs.layer_degrees = {{1}, {2}};
  const auto has = [&](const ParallelPlan& from, const ParallelPlan& to) {
    const std::vector<RatedPlan> moves = stage_moves_of(costs, from);
    for (const RatedPlan& move : moves) {
      CHECK(move.plan.devices() <= 4);
      CHECK(std::ranges::adjacent_find(move.plan.degrees, std::ranges::not_equal_to{}) != move.plan.degrees.end());
      CHECK(move.run.step == run_plan(costs, move.plan).step);
    }
    return std::ranges::find(moves, to, &RatedPlan::plan) != moves.end();
  };
  // Two stages of two replicas each, whose microbatches of 4 samples are 2 for each replica.
  const ParallelPlan equal{.data = 2, .cuts = {2}, .microbatch = 2, .zero = 1};
  ParallelPlan split{.degrees = {{.data = 1}, {.data = 1}, {.data = 2}}, .cuts = {1, 2}, .microbatch = 4, .zero = 1};
  CHECK(has(equal, split));
  ParallelPlan handed{.degrees = {{.data = 1}, {.data = 1, .tensor = {2}}}, .cuts = {2}, .microbatch = 4};
  CHECK(has({.degrees = {{.data = 1, .tensor = {2}}, {.data = 1}}, .cuts = {2}, .microbatch = 4}, handed));
  // The first two stages join on two devices, and on one.
  for (const std::size_t data : {std::size_t{2}, std::size_t{1}}) {
    const ParallelPlan joined{.degrees = {{.data = data}, {.data = 1, .tensor = {2}}}, .cuts = {2}, .microbatch = 4};
    CHECK(has({.degrees = {{.data = 1}, {.data = 1}, {.data = 1, .tensor = {2}}}, .cuts = {1, 2}, .microbatch = 4},
              joined));
  }
  // Without replicas nothing is shared or added.
  split.degrees[2] = {.data = 1, .tensor = {2}};
  ParallelPlan shared = split;
  split.zero = 0;
  shared.degrees[2] = {.data = 2};
  shared.bucket = Bytes{100};
  CHECK(has(shared, split));
  for (const ParallelPlan& other :
       {ParallelPlan{.data = 2, .cuts = {2}, .microbatch = 2, .schedule = PipelineSchedule::gpipe},
        ParallelPlan{.tensor = 2, .microbatch = 4, .slices = 2}})
    CHECK(stage_moves_of(costs, other).empty());
}

TEST_CASE("the gradients of a stage's only microbatch need not all be there, by hand") {
  PlanCosts costs = two_layers(2);
  costs.memory = Bytes{130};
  costs.layer = [given = costs.layer](std::size_t layer, std::size_t samples, LayerDegree tensor) {
    LayerCost cost = given(layer, samples, tensor);
    cost.backward_memory = BackwardMemory{};
    return cost;
  };
  LayerTables tables{costs};
  LeastMemory memory{costs, tables};
  // 80 bytes of weights and 160 of state are 120 for each of two devices; with 80 of gradients, 160.
  CHECK(memory.may_fit());
  CHECK(!memory.may_fit(true));
  CHECK(memory.may_hold({.tensor = 2, .microbatch = 4}));
  CHECK(!memory.may_hold({.tensor = 2, .microbatch = 2}));           // a second microbatch is added to the gradients
  CHECK(!memory.may_hold({.cuts = {1}, .microbatch = 4}));           // updates follow a device's tasks
  CHECK(!memory.may_hold({.data = 2, .microbatch = 2, .zero = 1}));  // 80 and 160 / 2
  costs.memory = Bytes{160};
  CHECK(memory.may_hold({.data = 2, .microbatch = 2, .zero = 1}));
  CHECK(!memory.may_hold({.data = 2, .microbatch = 1, .zero = 1}));
}

TEST_CASE("where a plan on one device cannot hold all gradients, it is said that another placer need not") {
  PlanCosts costs = two_layers(1);
  costs.memory = Bytes{300};
  const auto why = [&] {
    LayerTables tables{costs};
    const LeastMemory memory{costs, tables};
    CHECK(!memory.may_fit());
    const Finding finding = test::finding_of([&] { memory.refuse(); });
    return finding.message + "; " + finding.help;
  };
  // 80 bytes of weights, 80 of gradients and 160 of state
  const std::string help = "they need 320 B, and there is 1 device of 300 B: use 2 or more";
  CHECK(why() ==
        "no plan fits: weights, gradients and optimizer state alone exceed the memory of the devices; " + help);
  costs.layer = [given = costs.layer](std::size_t layer, std::size_t samples, LayerDegree tensor) {
    LayerCost cost = given(layer, samples, tensor);
    cost.backward_memory = BackwardMemory{};
    return cost;
  };
  CHECK(why() ==
        "no plan fits: weights, optimizer state and all gradients, which a plan on one device keeps, alone exceed its "
        "memory; " +
            help + "; or use the placer single, which does not keep all gradients");
}

TEST_CASE("a plan that cannot be is refused by name, with the nearest that can") {
  Random random{5};
  const PlanCosts costs = chain_costs(random_chain(random, 4, 4, 30'000'000));
  CHECK(refusal(costs, {.data = 3}) == "8 samples cannot be divided equally among 3 replicas: use data 2");
  CHECK(refusal(costs, {.data = 2, .microbatch = 3}) ==
        "4 samples of each replica cannot be divided into microbatches of 3: use microbatches of 2");
  CHECK(refusal(costs, {.tensor = 3}) ==
        "the layers cannot be divided equally among 3 ranks: set tensor to one of: 1, 2, 4");
  CHECK(refusal(costs, {.tensor = 2, .sequence = true}) ==
        "no layer has a sequence that 2 ranks can divide: use no sequence parallelism");
  CHECK(refusal(costs, {.sequence = true}) ==
        "sequence parallelism needs at least 2 tensor ranks, and there is one: use more ranks, or no sequence "
        "parallelism");
  CHECK(refusal(costs, {.microbatch = 2, .slices = 2}) ==
        "slices hide communication between the ranks of a replica, and here a replica has one rank: use more ranks, or "
        "1 slice");
  CHECK(refusal(costs, {.tensor = 2, .cuts = {2}, .microbatch = 2, .slices = 2}) ==
        "microbatches can be sliced only in a plan of one stage, and this plan has 2: use 1 slice");
  CHECK(refusal(costs, {.tensor = 2, .microbatch = 4, .slices = 3}) ==
        "microbatches of 4 samples cannot be divided equally into 3 slices: use slices 2");
  CHECK(
      refusal(costs, {.tensor = 2, .slices = 0}) ==
      "the degrees, microbatches, slices and chunks of a plan must be at least 1: use 1 for each that divides nothing");
  CHECK(refusal(costs, {.cuts = {1, 2, 3, 4}}) ==
        "the plan has 5 stages, more than the 4 layers: use at most 4 stages");
  CHECK(refusal(costs, {.cuts = {2, 2}}) ==
        "stage 2 begins at layer 2 and the stage before it at layer 2, out of order or range: let the first layers of "
        "the stages ascend, between 1 and 3");
  CHECK(refusal(costs, {.data = 4, .cuts = {2}}) ==
        "data 4 x tensor 1 x 2 devices in a row need 8 devices, and there are 4: use data 2");
  CHECK(refusal(costs, {.tensor = 8}) ==
        "data 1 x tensor 8 x 1 device in a row need 8 devices, and there are 4: use tensor 4");
  CHECK(refusal(costs, {.tensor = 2, .cuts = {1, 2}}) ==
        "data 1 x tensor 2 x 3 devices in a row need 6 devices, and there are 4: use tensor 1");
  // One degree alone cannot repair these. 4 replicas have 2 of 8 samples each, so a microbatch has 2 at most.
  CHECK(refusal(costs, {.data = 8, .tensor = 8}) ==
        "data 8 x tensor 8 x 1 device in a row need 64 devices, and there are 4: use data 4, tensor 1");
  CHECK(refusal(costs, {.data = 8, .microbatch = 3}) ==
        "data 8 x tensor 1 x 1 device in a row need 8 devices, and there are 4: use data 4, microbatches of 2");
  PlanCosts shared = costs;
  shared.layer_degrees.push_back({.context = 2});
  CHECK(refusal(shared, {.context = 8}) ==
        "data 1 x context 8 x tensor 1 x 1 device in a row need 8 devices, and there are 4: use context 2");
  PlanCosts small = costs;
  small.memory = Bytes{1000};
  CHECK_THROWS_WITH_AS(search_plans(small), doctest::Contains("no plan fits"), InputError);
}

TEST_CASE("a search has layers, samples, devices, schedules and functions, and no layer takes less than no time") {
  const PlanCosts whole = pipeline_costs({{5, 5, 5}, {5, 5, 5}}, 4);
  CHECK_NOTHROW(search_plans(whole));
  CHECK_THROWS_AS(search_plans(whole, {.schedules = {}}), InputError);
  CHECK_THROWS_AS(run_plan(whole, {.zero = 9}), InputError);
  CHECK_THROWS_AS(search_plans(pipeline_costs({}, 4)), InputError);
  CHECK_THROWS_AS(search_plans(pipeline_costs({{5, 5, 5}}, 0)), InputError);
  CHECK_THROWS_AS(search_plans(pipeline_costs({{-5, 5, 5}}, 4)), InputError);
  PlanCosts none = whole, local = whole;
  none.layer = {};
  local.transfer = {};
  CHECK_THROWS_AS(search_plans(none), InputError);
  CHECK_THROWS_AS(search_plans(local), InputError);
}
