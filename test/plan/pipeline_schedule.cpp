#include "trainyard/plan/pipeline_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/instances.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/random.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

using enum PipelineSchedule;
constexpr PipelineSchedule kAll[]{gpipe, one_f_one_b, interleaved, zb_h1, zb_h2, zb_v, v_half, v_min, dualpipe_v};

std::int64_t step(PipelineSchedule schedule, std::size_t p, std::size_t m, StageTimes each, std::size_t v = 1) {
  return run_plan(pipeline_costs(std::vector<StageTimes>(p * v, each), m), pipeline_plan(schedule, p, v)).step.count;
}

/// Text such as "F0 f1 D0 d1": F is forward, B and W are the gradients of inputs and weights, D both in one task. Lower
/// case is chunk 1.
std::string text(const std::vector<PipelineTask>& tasks) {
  std::string line;
  for (const PipelineTask& task : tasks) {
    const char letter = "FBWD"[static_cast<int>(task.pass)];
    line += std::string(line.empty() ? 0 : 1, ' ') + static_cast<char>(task.chunk > 0 ? letter + 'a' - 'A' : letter) +
            std::to_string(task.microbatch);
  }
  return line;
}

}  // namespace

TEST_CASE("the orders of four devices and eight microbatches are the published ones") {
  CHECK(text(pipeline_tasks(zb_h1, 2, 4, 8)) ==
        "F0 F1 B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 F6 B5 W3 F7 B6 W4 B7 W5 W6 W7");
  CHECK(text(pipeline_tasks(zb_h2, 1, 4, 8)) ==
        "F0 F1 F2 F3 F4 B0 F5 B1 F6 B2 W0 F7 B3 W1 B4 W2 B5 W3 B6 W4 B7 W5 W6 W7");
  CHECK(
      text(pipeline_tasks(zb_v, 3, 4, 8, 2)) ==
      "F0 f0 F1 f1 F2 f2 F3 f3 b0 w0 F4 B0 W0 f4 b1 w1 F5 B1 W1 f5 b2 w2 F6 B2 W2 f6 b3 w3 F7 B3 W3 f7 b4 w4 B4 b5 B5 "
      "b6 B6 b7 B7 W4 w5 w6 w7 W5 W6 W7");
  CHECK(
      text(pipeline_tasks(v_half, 3, 4, 8, 2)) ==
      "F0 f0 F1 f1 F2 f2 b0 w0 B0 W0 F3 f3 b1 w1 B1 W1 F4 f4 b2 w2 B2 W2 F5 f5 b3 w3 B3 W3 F6 f6 b4 w4 B4 W4 F7 f7 b5 "
      "w5 B5 W5 b6 w6 B6 W6 b7 w7 B7 W7");
  CHECK(
      text(pipeline_tasks(v_min, 3, 4, 8, 2)) ==
      "F0 f0 F1 f1 b0 B0 w0 W0 F2 f2 b1 B1 w1 W1 F3 f3 b2 B2 w2 W2 F4 f4 b3 B3 w3 W3 F5 f5 b4 B4 w4 W4 F6 f6 b5 B5 w5 "
      "W5 F7 f7 b6 B6 w6 W6 b7 B7 w7 W7");
  CHECK(
      text(pipeline_tasks(dualpipe_v, 2, 4, 8, 2)) ==
      "F0 F1 F2 f0 F3 f1 F4 f2 b0 w0 f3 F5 d1 f4 D0 F6 d2 f5 D1 F7 d3 f6 D2 d4 f7 D3 d5 D4 d6 B5 b7 B6 W5 B7 w7 W6 W7");
}

TEST_CASE("each device computes every pass of every chunk and microbatch once, forward before backward") {
  for (const PipelineSchedule schedule : kAll)
    for (std::size_t p = 1; p <= 6; ++p)
      for (std::size_t m = p; m <= 3 * p; m += p) {
        if (schedule == dualpipe_v && m < 2 * p) continue;
        const std::size_t v = chunks_of(schedule, 3);
        for (std::size_t i = 0; i < p; ++i) {
          CAPTURE(name_of(schedule));
          CAPTURE(p);
          CAPTURE(m);
          std::map<std::pair<std::size_t, std::size_t>, std::vector<Pass>> passes;
          for (const PipelineTask& task : pipeline_tasks(schedule, i, p, m, v))
            passes[{task.chunk, task.microbatch}].push_back(task.pass);
          CHECK(passes.size() == v * m);
          for (const auto& [of, order] : passes) {
            const bool one = order == std::vector{Pass::forward, Pass::backward};
            const bool two = order == std::vector{Pass::forward, Pass::input_gradient, Pass::weight_gradient};
            CHECK((one || (two && splits_backward(schedule))));
          }
        }
      }
}

TEST_CASE("the closed forms of pipelines over equal stages hold for random times") {
  Random random{1};
  for (int round = 0; round < test::rounds(60); ++round) {
    const auto p = 1 + random.below(6), m = p * (1 + random.below(4));
    const auto f = 1 + static_cast<std::int64_t>(random.below(50)), b = 1 + static_cast<std::int64_t>(random.below(50)),
               w = 1 + static_cast<std::int64_t>(random.below(50));
    const auto row = static_cast<std::int64_t>(p), parts = static_cast<std::int64_t>(m);
    CHECK(step(gpipe, p, m, {f, b, w}) == (parts + row - 1) * (f + b + w));
    CHECK(step(one_f_one_b, p, m, {f, b, w}) == (parts + row - 1) * (f + b + w));
    CHECK(step(interleaved, p, m, {f, b, w}, 3) == (3 * parts + row - 1) * (f + b + w));
    const std::int64_t least = std::min({f, b, w});
    CHECK(step(zb_h1, p, m, {f, b, least}) == parts * (f + b + least) + (row - 1) * (f + b - least));
    if (m >= 2 * p - 1) CHECK(step(zb_h2, p, m, {f, f, f}) == 3 * parts * f + (row - 1) * f);
    if (m >= 2 * p) CHECK(step(zb_v, p, m, {f, f, f}, 2) == 6 * parts * f + (row - 1) * f);
  }
}

TEST_CASE("transfers of c make 1F1B longer by 2c (p - 1) m / p + 2c (p - 2), and GPipe by 2c (p - 1)") {
  // p = 4, m = 8, stages of 10 + 10 + 10, c = 1: 11 x 30 = 330. 1F1B adds 2 x 3 x 8 / 4 + 2 x 2 = 16, GPipe 2 x 3 = 6.
  const PlanCosts costs = pipeline_costs(std::vector<StageTimes>(4, {10, 10, 10}), 8, 1);
  CHECK(run_plan(costs, pipeline_plan(one_f_one_b, 4, 1)).step == Nanoseconds{346});
  CHECK(run_plan(costs, pipeline_plan(gpipe, 4, 1)).step == Nanoseconds{336});
}

TEST_CASE(
    "memory by layer: activations go as gradients of weights come, which are there from the start of more passes") {
  // Two layers keep 10 and 6 bytes of a microbatch. One op in each makes the gradient of all its weights, 4 and 8,
  // which reads 3 and 2. The working set is 5.
  const std::vector<LayerCost> layers{{.saved = Bytes{10},
                                       .weights = Bytes{4},
                                       .backward_memory = BackwardMemory{Bytes{5}, Bytes{4}, Bytes{3}, Bytes{5}}},
                                      {.saved = Bytes{6},
                                       .weights = Bytes{8},
                                       .backward_memory = BackwardMemory{Bytes{5}, Bytes{8}, Bytes{2}, Bytes{5}}}};
  PlanCosts costs{.layers = 2, .batch = 2};
  costs.layer = [&](std::size_t layer, std::size_t, LayerDegree) { return layers[layer]; };
  costs.update = [](Bytes, std::size_t, std::size_t) { return Nanoseconds{0}; };
  const auto peak = [&](ParallelPlan plan) { return run_plan(costs, plan).peaks.front(); };
  // Weights 12, activations 16. The second layer adds 5 and its gradient 8; the first adds 5 and both gradients 12,
  // less 6 activations.
  CHECK(peak({.microbatch = 2}) == Bytes{12 + 16 + 5 + 8});
  // If the first layer is recomputed, it keeps 2, and holds all 10 during its backward pass.
  costs.layer = [&](std::size_t layer, std::size_t, LayerDegree) {
    LayerCost cost = layers[layer];
    cost.input = Bytes{2};
    return cost;
  };
  CHECK(peak({.microbatch = 2, .recompute = {{StageRecompute::blocks, 1}}}) ==
        Bytes{12 + std::max(8 + 5 + 8, 2 + 10 + 5 + 12)});
  // With two microbatches, gradients are held from the start, and each new one is held with its sum: 2 x 8.
  CHECK(peak({.microbatch = 1}) == Bytes{2 * 12 + 16 + 5 + 2 * 8});
  // With separate weight gradients (W), 5 are kept at the end of B for W, which makes gradients of 12.
  CHECK(peak({.microbatch = 2, .schedule = zb_h1}) == Bytes{12 + std::max(16 + 5, 5 + 12)});
}

TEST_CASE("a schedule that cannot be made of so few microbatches is refused with the number that can") {
  const auto message = [](PipelineSchedule schedule, std::size_t p, std::size_t m) {
    return test::finding_of([&] { pipeline_tasks(schedule, 0, p, m, 2); }).message;
  };
  CHECK(message(interleaved, 4, 6) ==
        "an interleaved pipeline over 4 devices needs a multiple of 4 microbatches, not 6");
  CHECK(message(dualpipe_v, 4, 7) == "dualpipe-v over 4 devices needs at least 8 microbatches, not 7");
}

TEST_CASE("orders, starts, steps and activations in flight of 137 pipelines agree with an independent program") {
  const auto file = reference_data("answers/plans/timelines.json");
  if (!file) return report_skipped("no reference answers here");
  for (const auto& entry : nlohmann::json::parse(read_text(*file))) {
    std::string name = entry.at("schedule");
    CAPTURE(name);
    const std::size_t p = entry.at("devices"), m = entry.at("microbatches"), v = entry.at("stages_per_device");
    CAPTURE(p);
    CAPTURE(m);
    if (name == "interleaved-2") name = "interleaved";
    const auto* schedule = std::ranges::find(kAll, name, [](PipelineSchedule each) { return name_of(each); });
    REQUIRE(schedule != std::end(kAll));
    std::vector<StageTimes> times;
    for (std::size_t s = 0; s < p * v; ++s)
      times.push_back({entry["forward_ns"][s], entry["input_gradient_ns"][s], entry["weight_gradient_ns"][s]});
    std::size_t transfers = 0;
    PlanCosts costs = pipeline_costs(times, m);
    costs.transfer = [&](const ParallelPlan&, std::size_t, std::size_t, Bytes) {
      if (entry["transfer_ns"] != 0) ++transfers;
      return Nanoseconds{entry["transfer_ns"].get<std::int64_t>()};
    };
    const PlanStep run = run_plan(costs, pipeline_plan(*schedule, p, v));
    CHECK(run.step.count == entry["makespan_ns"]);
    CHECK(transfers * m == entry["transfers"]);  // transfer() is called once per cut and direction
    for (std::size_t i = 0; i < p; ++i) {
      std::string order;
      for (const PipelineTask& task : pipeline_tasks(*schedule, i, p, m, v))
        order += std::string(order.empty() ? 0 : 1, ' ') + "FBWD"[static_cast<int>(task.pass)] +
                 std::to_string(stage_of(*schedule, i, task.chunk, p)) + "." + std::to_string(task.microbatch);
      CHECK(order == entry["order"][i]);
      CHECK(run.held[i] == entry["peak_chunks"][i]);
      for (std::size_t k = 0; k < run.starts[i].size(); ++k) CHECK(run.starts[i][k].count == entry["start_ns"][i][k]);
    }
  }
}
