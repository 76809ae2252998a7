#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/instances.hpp"
#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/core/random.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/plan/planners/aceso.hpp"
#include "trainyard/plan/planners/alpa.hpp"
#include "trainyard/plan/planners/dapple.hpp"
#include "trainyard/plan/planners/galvatron.hpp"
#include "trainyard/plan/planners/megatron.hpp"
#include "trainyard/plan/planners/piper.hpp"
#include "trainyard/plan/planners/planner.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Calls `visit` with every 1F1B plan of the chain that fits, on all devices or on any number: cuts, recomputation of
/// whole stages, ZeRO 0 and 1.
template <class Visit>
void each_plan(const PlanCosts& costs, bool all_devices, const Visit& visit) {
  for (const LayerDegree tensor : costs.layer_degrees)
    for (const std::size_t data : divisors(costs.batch))
      for (const std::size_t microbatch : divisors(costs.batch / data))
        for (unsigned cut = 0; cut < 1u << (costs.layers - 1); ++cut) {
          ParallelPlan plan{.data = data, .tensor = tensor.ranks, .microbatch = microbatch};
          for (std::size_t layer = 1; layer < costs.layers; ++layer)
            if (cut >> (layer - 1) & 1) plan.cuts.push_back(layer);
          if (plan.devices() > costs.devices || (all_devices && plan.devices() < costs.devices)) continue;
          for (unsigned again = 0; again < 1u << plan.stages(); ++again) {
            plan.recompute.clear();
            for (std::size_t s = 0; s < plan.stages(); ++s)
              plan.recompute.push_back(again >> s & 1 ? StageRecompute::blocks : StageRecompute::no);
            for (plan.zero = 0; plan.zero <= (data > 1 ? 1 : 0); ++plan.zero)
              if (run_plan(costs, plan).excess(costs.memory) == Bytes{0}) visit(plan);
          }
        }
}

/// Times of a stage, in ns: its passes, its transfers over the cuts before and after it (forward, backward), and its
/// sum of gradients.
struct Passes {
  std::int64_t forward = 0, backward = 0, before[2] = {0, 0}, after[2] = {0, 0}, reduce = 0;
  std::int64_t time() const { return forward + backward; }
  std::int64_t sent() const { return before[0] + before[1] + after[0] + after[1]; }
};
std::vector<Passes> passes_of(const PlanCosts& costs, const ParallelPlan& plan) {
  std::vector<Passes> stages(plan.stages());
  std::vector<Bytes> weights(plan.stages());
  for (std::size_t layer = 0, s = 0; layer < costs.layers; ++layer) {
    if (s < plan.cuts.size() && plan.cuts[s] == layer) {
      const auto before = plan.degrees_of(s), after = plan.degrees_of(s + 1);
      const auto fewer = static_cast<std::int64_t>(std::min(before.data, after.data));
      const auto sent = [&](Bytes bytes, std::size_t data) {
        return Bytes{bytes.count * static_cast<std::int64_t>(data) / fewer};
      };
      const Bytes output = sent(costs.layer(layer - 1, plan.samples_of(s), before.tensor).output, before.data),
                  input = sent(costs.layer(layer, plan.samples_of(s + 1), after.tensor).input, after.data);
      stages[s].after[0] = stages[s + 1].before[0] = costs.transfer(plan, s, s + 1, output).count;
      stages[s].after[1] = stages[s + 1].before[1] = costs.transfer(plan, s + 1, s, input).count;
      ++s;
    }
    const LayerCost cost = costs.layer(layer, plan.samples_of(s), plan.degrees_of(s).tensor);
    stages[s].forward += cost.forward.count;
    stages[s].backward += (cost.input_gradient + cost.weight_gradient).count;
    if (plan.recompute[s] == StageRecompute::blocks) stages[s].backward += cost.forward.count;
    weights[s] += cost.weights;
    if (plan.degrees_of(s).data > 1) stages[s].reduce = costs.all_reduce(plan, s, weights[s]).count;
  }
  return stages;
}
std::int64_t microbatches(const PlanCosts& costs, const ParallelPlan& plan) {
  return static_cast<std::int64_t>(costs.batch / plan.data / plan.microbatch);
}

double alpa_step(const PlanCosts& costs, const ParallelPlan& plan) {
  const std::int64_t m = microbatches(costs, plan);
  std::int64_t sum = 0, most = 0;
  for (const Passes& stage : passes_of(costs, plan)) {
    sum += stage.time() + stage.reduce / m;
    most = std::max(most, stage.time() + stage.reduce / m);
  }
  return static_cast<double>(sum + (m - 1) * most);
}

double piper_load(const PlanCosts& costs, const ParallelPlan& plan) {
  std::int64_t most = 0;
  for (const Passes& stage : passes_of(costs, plan))
    most = std::max(most, stage.time() + stage.sent() + 2 * stage.reduce / microbatches(costs, plan));
  return static_cast<double>(most) / static_cast<double>(plan.data * plan.microbatch);
}

double galvatron_time(const PlanCosts& costs, const ParallelPlan& plan) {
  std::int64_t sum = 0, most = 0, beyond = 0;
  for (const Passes& stage : passes_of(costs, plan)) {
    const std::int64_t sent = stage.before[1] + stage.after[0];
    sum += stage.time() + sent;
    most = std::max(most, stage.time() + sent);
    beyond = std::max(beyond, stage.forward + sent + std::max(stage.backward, stage.reduce) - sum);
  }
  return static_cast<double>(sum + (microbatches(costs, plan) - 1) * most + beyond);
}

double aceso_step(const PlanCosts& costs, const ParallelPlan& plan) {
  std::int64_t sum = 0, most = 0;
  for (const Passes& stage : passes_of(costs, plan)) {
    sum += stage.time() + stage.sent();
    most = std::max(most, stage.time() + stage.sent());
  }
  return static_cast<double>(sum + (microbatches(costs, plan) - 1) * most);
}

double latency(const PlanCosts& costs, const ParallelPlan& plan) {
  std::vector<DappleStage> stages;
  for (const Passes& each : passes_of(costs, plan)) {
    if (!stages.empty()) stages.push_back({Nanoseconds{each.before[0]}, Nanoseconds{each.before[1]}, Nanoseconds{0}});
    stages.push_back({Nanoseconds{each.forward}, Nanoseconds{each.backward}, Nanoseconds{each.reduce}});
  }
  return static_cast<double>(dapple_latency(stages, static_cast<std::size_t>(microbatches(costs, plan))).count);
}

/// These costs where a layer's kept activations are freed as its backward pass reads them.
PlanCosts freeing(PlanCosts costs) {
  costs.layer = [layer = std::move(costs.layer)](std::size_t i, std::size_t samples, LayerDegree degree) {
    LayerCost cost = layer(i, samples, degree);
    cost.backward_memory = BackwardMemory{};
    return cost;
  };
  return costs;
}

bool alike(const ParallelPlan& plan) {
  return std::ranges::count(plan.recompute, plan.recompute.front()) == static_cast<std::ptrdiff_t>(plan.stages());
}

std::string refusal(const PlanCosts& costs, const Planner& planner) {
  return test::finding_of([&] { planner.plan(costs, {}); }).message;
}

}  // namespace

TEST_CASE("Alpa's and Piper's plans are the best of all by their own objectives, on twenty chains") {
  Random random{11};
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    PlanCosts costs = chain_costs(random_chain(random, 3 + random.below(3), 4, random.between(4, 20) * 1'000'000));
    if (round % 2 == 1) costs = freeing(std::move(costs));
    std::optional<double> alpa, piper;
    each_plan(costs, true, [&](const ParallelPlan& plan) {
      if (alike(plan) && (plan.zero == 1 || plan.data == 1))
        alpa = std::min(alpa.value_or(1e18), alpa_step(costs, plan));
    });
    each_plan(costs, false, [&](const ParallelPlan& plan) {
      if (plan.zero == 0 && plan.stages() * plan.data <= costs.batch / plan.microbatch)
        piper = std::min(piper.value_or(1e18), piper_load(costs, plan));
    });
    REQUIRE(alpa);
    REQUIRE(piper);
    const PlannerAnswer by_alpa = plan_alpa(costs), by_piper = plan_piper(costs);
    CHECK(by_alpa.objective == *alpa);
    CHECK(alpa_step(costs, by_alpa.plan) == *alpa);
    CHECK(by_piper.objective == doctest::Approx(*piper).epsilon(1e-12));
    CHECK(piper_load(costs, by_piper.plan) == doctest::Approx(*piper).epsilon(1e-12));
  }
}

TEST_CASE(
    "with degrees of stages too, Alpa's and Piper's plans are the best of all by their objectives, on twenty chains") {
  Random random{13};
  int unequal = 0, by_piper = 0;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const std::size_t layers = 3 + random.below(2), devices = 3 + random.below(2);
    const PlanCosts costs = chain_costs(random_chain(random, layers, devices, random.between(8, 20) * 1'000'000));
    const PlannerAnswer equal = plan_alpa(costs), found = plan_alpa(costs, {.stage_degrees = true});
    const PlannerAnswer piper_equal = plan_piper(costs), piper = plan_piper(costs, {.stage_degrees = true});
    double best = equal.objective, best_piper = piper_equal.objective;
    each_plan_of_stage_degrees(costs, [&](const ParallelPlan& plan) {
      if (run_plan(costs, plan).excess(costs.memory) > Bytes{0}) return;
      if (plan.zero == 0 && plan.stages() <= costs.batch / plan.microbatch)
        best_piper = std::min(best_piper, piper_load(costs, plan));
      const bool shared = std::ranges::any_of(plan.degrees, [](const StageDegrees& each) { return each.data > 1; });
      if (plan.devices() == devices && alike(plan) && plan.zero == (shared ? 1 : 0))
        best = std::min(best, alpa_step(costs, plan));
    });
    CHECK(found.objective == best);
    CHECK(alpa_step(costs, found.plan) == best);
    CHECK(run_plan(costs, found.plan).excess(costs.memory) == Bytes{0});
    CHECK(piper.objective == doctest::Approx(best_piper).epsilon(1e-12));
    CHECK(piper_load(costs, piper.plan) == doctest::Approx(best_piper).epsilon(1e-12));
    CHECK(run_plan(costs, piper.plan).excess(costs.memory) == Bytes{0});
    by_piper += best_piper < piper_equal.objective;
    unequal += best < equal.objective;
  }
  CHECK(unequal > 5);
  CHECK(by_piper > 0);
}

TEST_CASE("Galvatron's, Aceso's and DAPPLE's plans are worth what their formulas say, and seldom far from the best") {
  Random random{12};
  double galvatron = 0, aceso = 0, dapple = 0;
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const PlanCosts costs = chain_costs(random_chain(random, 3 + random.below(3), 4, 20'000'000));
    double best_galvatron = 1e18, best_aceso = 1e18, best_dapple = 1e18;
    each_plan(costs, true, [&](const ParallelPlan& plan) {
      best_galvatron = std::min(best_galvatron, galvatron_time(costs, plan));
      if (plan.zero == 0) best_aceso = std::min(best_aceso, aceso_step(costs, plan));
      if (plan.zero == 0 && plan.tensor == 1 && alike(plan)) best_dapple = std::min(best_dapple, latency(costs, plan));
    });
    const PlannerAnswer by_galvatron = plan_galvatron(costs), by_aceso = plan_aceso(costs),
                        by_dapple = plan_dapple(costs);
    CHECK(galvatron_time(costs, by_galvatron.plan) == by_galvatron.objective);
    CHECK(aceso_step(costs, by_aceso.plan) == by_aceso.objective);
    CHECK(latency(costs, by_dapple.plan) == by_dapple.objective);
    CHECK(by_galvatron.objective >= best_galvatron);
    CHECK(by_aceso.objective >= best_aceso);
    CHECK(by_dapple.objective >= best_dapple);
    galvatron += by_galvatron.objective / best_galvatron;
    aceso += by_aceso.objective / best_aceso;
    dapple += by_dapple.objective / best_dapple;
  }
  // These planners are heuristic: three partitions, moves, and a dynamic program with incomplete states. Means over the
  // best of all plans.
  CHECK(galvatron / kRounds < 1.02);
  CHECK(aceso / kRounds < 1.02);
  CHECK(dapple / kRounds < 1.02);
}

TEST_CASE("Aceso's plans with degrees of its stages are worth what its formula says, and seldom far from the best") {
  Random random{14};
  double aceso = 0;
  int unequal = 0;
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const PlanCosts costs = chain_costs(random_chain(random, 3 + random.below(2), 3 + random.below(2), 20'000'000));
    const PlannerAnswer equal = plan_aceso(costs), found = plan_aceso(costs, {.stage_degrees = true});
    double best = equal.objective;
    const auto look_at = [&](const ParallelPlan& plan) {
      if (plan.zero == 0 && run_plan(costs, plan).excess(costs.memory) == Bytes{0})
        best = std::min(best, aceso_step(costs, plan));
    };
    each_plan(costs, true, look_at);
    each_plan_of_stage_degrees(costs, look_at);
    CHECK(aceso_step(costs, found.plan) == found.objective);
    CHECK(run_plan(costs, found.plan).excess(costs.memory) == Bytes{0});
    CHECK(found.objective <= equal.objective);
    unequal += !found.plan.degrees.empty();
    aceso += found.objective / best;
  }
  CHECK(unequal > 5);
  CHECK(aceso / kRounds < 1.02);
}

TEST_CASE("planners count the gradients of the only microbatch as they are made, by hand") {
  PlanCosts costs = pipeline_costs({{100, 100, 100}, {100, 100, 100}, {100, 100, 100}}, 1);
  costs.layer_degrees = {{1}, {2}};
  // The third layer takes twice as much on one rank.
  costs.layer = [layer = costs.layer](std::size_t i, std::size_t samples, LayerDegree degree) {
    const std::int64_t parts = i == 2 && degree.ranks == 1 ? 2 : 1;
    LayerCost cost = layer(i, samples, degree);
    cost.input = cost.saved = Bytes{20 * parts};
    cost.weights = Bytes{40 * parts};
    cost.state = Bytes{80 * parts};
    return cost;
  };
  costs = freeing(std::move(costs));
  // Two layers have weights of 80 and state of 160. The second one keeps 20 until its gradients of 40 are made, the
  // first until both are: 20 + 80.
  costs.memory = Bytes{340};
  // The third layer alone takes 80 + 160 + 40 + 80 on one device, so two devices share it.
  CHECK_THROWS_AS(plan_alpa(costs), InputError);
  CHECK(std::ranges::max(run_plan(costs, plan_alpa(costs, {.stage_degrees = true}).plan).peaks) == Bytes{340});
  costs.layers = 2;
  costs.devices = 1;
  for (const Planner& planner : planners()) {
    CAPTURE(planner.name);
    costs.memory = Bytes{340};
    CHECK(run_plan(costs, planner.plan(costs, {}).plan).peaks == std::vector{Bytes{340}});
    costs.memory = Bytes{339};
    CHECK(refusal(costs, planner).starts_with("no plan of "));
  }
}

TEST_CASE("DAPPLE's latency by hand: the pivot has no bubble, and sums of gradients may end after it") {
  const auto stage = [](std::int64_t forward, std::int64_t backward, std::int64_t reduce) {
    return DappleStage{Nanoseconds{forward}, Nanoseconds{backward}, Nanoseconds{reduce}};
  };
  // One stage: 4 (1 + 2) + 5.
  CHECK(dapple_latency({stage(1, 2, 5)}, 4) == Nanoseconds{17});
  // The pivot is the first stage, as 3 x 12 > 3 x 3 + 0: 4 + 3 x 12 + 8 + 10. The last adds no more than 3 - (8 + 2).
  CHECK(dapple_latency({stage(4, 8, 10), stage(0, 0, 0), stage(1, 2, 3)}, 4) == Nanoseconds{58});
  // The pivot is the last stage: 1 + 1 + 4 + 3 x 12. Then its 8, or 8 + 1 + 2 + 6 for the first stage's sum.
  CHECK(dapple_latency({stage(1, 2, 6), stage(1, 1, 0), stage(4, 8, 0)}, 4) == Nanoseconds{42 + 17});
}

TEST_CASE("Megatron takes ranks before stages, and no more of either than the model takes to fit") {
  Random random{5};
  nlohmann::json chain = random_chain(random, 8, 8, 0);
  for (auto& layer : chain["layers"]) layer = chain["layers"][0];
  // Each of 8 layers has weights of 100 and state of 200: 8 x (2 x 100 + 200) = 3,200 on one device. With ZeRO 1, a
  // replica has 1/8 of the state. Activations take next to nothing.
  for (auto& layer : chain["layers"]) {
    layer["weight_bytes"] = 100;
    layer["saved_bytes"] = layer["input_bytes"] = layer["output_bytes"] = 1;
  }
  const auto plan_for = [&](std::int64_t memory) {
    chain["memory_bytes"] = memory;
    PlanCosts costs = chain_costs(chain);
    costs.batch = 64;
    return plan_megatron(costs).plan;
  };
  // 8 replicas: weights and gradients 1,600, state 200.
  const ParallelPlan replicas = plan_for(1900);
  CHECK(replicas.data == 8);
  CHECK(replicas.zero == 1);
  // On four ranks, with two replicas: 400 and 200. On two ranks, with four replicas: 800 and 200.
  CHECK(plan_for(1100).tensor == 2);
  CHECK(plan_for(700).tensor == 4);
  // Two stages with half of the layers each: 200, and all of the state, 200, since there is one replica.
  const ParallelPlan both = plan_for(450);
  CHECK(both.tensor == 4);
  CHECK(both.devices_in_row() == 2);
  CHECK(both.data == 1);
  // 64 microbatches of one sample, or fewer, pass two devices in rounds: four chunks of one layer each.
  CHECK(both.schedule == PipelineSchedule::interleaved);
  CHECK(both.chunks == 4);
  CHECK(both.cuts == std::vector<std::size_t>{1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("planners' plans fit in memory, repeat, and take no less than the best plan of the twenty chains") {
  const auto file = reference_data("answers/plans/tiny_plans.json");
  if (!file) return report_skipped("no reference answers here");
  std::map<std::string, int> optimal;
  for (const auto& chain : nlohmann::json::parse(read_text(*file))) {
    CAPTURE(chain.at("name").get<std::string>());
    const PlanCosts costs = chain_costs(chain);
    for (const Planner& planner : planners()) {
      CAPTURE(planner.name);
      std::optional<PlannerAnswer> found;
      try {
        found = planner.plan(costs, {});
      } catch (const InputError& error) {
        CHECK(std::string{error.what()}.find("no plan of") != std::string::npos);
        continue;
      }
      const PlanStep run = run_plan(costs, found->plan);
      CHECK(run.excess(costs.memory) == Bytes{0});
      if (found->plan.schedule == PipelineSchedule::one_f_one_b)
        CHECK(run.step.count >= chain.at("answer").at("step_ns").get<std::int64_t>());
      optimal[planner.name] += run.step.count == chain.at("answer").at("step_ns");
      CHECK(planner.plan(costs, {}).plan == found->plan);
    }
  }
  // Each planner finds the best plan for some of the 20 chains, and none for all.
  for (const auto& each : optimal) CHECK((each.second > 0 && each.second < 20));
}

TEST_CASE("a planner none of whose plans fits says so, and names the nearest") {
  Random random{5};
  PlanCosts costs = chain_costs(random_chain(random, 4, 4, 30'000'000));
  costs.memory = Bytes{1000};
  for (const Planner& planner : planners()) {
    CAPTURE(planner.name);
    const std::string message = refusal(costs, planner);
    CHECK(message.starts_with("no plan of " + std::string{planner.name} + " fits: the nearest, "));
    CHECK(message.ends_with(" MB"));
  }
  // The caller's filter allows no plan.
  costs.memory.reset();
  for (const Planner& planner : planners())
    CHECK_THROWS_WITH_AS(planner.plan(costs, {.allowed = [](const ParallelPlan&) { return false; }}),
                         doctest::Contains("is possible"), InputError);
}
