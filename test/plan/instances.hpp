#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/plan/divisors.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard::test {

/// Times of one stage for one microbatch, in ns.
struct StageTimes {
  std::int64_t forward, input_gradient, weight_gradient;
};

/// Costs of one layer per stage, without bytes, for m microbatches of one sample. A transfer takes `transfer` ns.
inline PlanCosts pipeline_costs(std::vector<StageTimes> stages, std::size_t m, std::int64_t transfer = 0) {
  PlanCosts costs{.layers = stages.size(), .batch = m, .devices = stages.size()};
  costs.layer = [stages = std::move(stages)](std::size_t layer, std::size_t, LayerDegree) {
    const StageTimes& times = stages[layer];
    return LayerCost{.forward = Nanoseconds{times.forward},
                     .input_gradient = Nanoseconds{times.input_gradient},
                     .weight_gradient = Nanoseconds{times.weight_gradient}};
  };
  costs.transfer = [transfer](const ParallelPlan&, std::size_t, std::size_t, Bytes) { return Nanoseconds{transfer}; };
  costs.all_reduce = [](const ParallelPlan&, std::size_t, Bytes) { return Nanoseconds{0}; };
  costs.update = [](Bytes, std::size_t, std::size_t) { return Nanoseconds{0}; };
  return costs;
}

/// Plan for p devices of v stages each, with one layer per stage.
inline ParallelPlan pipeline_plan(PipelineSchedule schedule, std::size_t p, std::size_t v) {
  ParallelPlan plan{.chunks = v, .schedule = schedule};
  for (std::size_t s = 1; s < p * v; ++s) plan.cuts.push_back(s);
  return plan;
}

/// Calls `visit` with every 1F1B plan whose stages have different degrees: microbatches, cuts, degrees, recomputation
/// of whole stages, ZeRO 0 and 1.
template <class Visit>
void each_plan_of_stage_degrees(const PlanCosts& costs, const Visit& visit) {
  const auto degrees = [&](auto&& self, ParallelPlan& plan) -> void {
    if (plan.degrees.size() < plan.stages()) {
      for (const LayerDegree tensor : costs.layer_degrees)
        for (const std::size_t data : divisors(plan.microbatch)) {
          plan.degrees.push_back({data, tensor});
          if (plan.first_device(plan.degrees.size()) <= costs.devices) self(self, plan);
          plan.degrees.pop_back();
        }
      return;
    }
    if (std::ranges::count(plan.degrees, plan.degrees.front()) == static_cast<std::ptrdiff_t>(plan.stages())) return;
    for (plan.zero = 0; plan.zero <= 1; ++plan.zero)
      for (unsigned again = 0; again < (costs.memory ? 1u << plan.stages() : 1u); ++again) {
        plan.recompute.clear();
        for (std::size_t s = 0; s < plan.stages(); ++s)
          plan.recompute.push_back(again >> s & 1 ? StageRecompute::blocks : StageRecompute::no);
        visit(plan);
      }
  };
  for (const std::size_t microbatch : divisors(costs.batch))
    for (unsigned cut = 0; cut < 1u << (costs.layers - 1); ++cut) {
      ParallelPlan plan{.microbatch = microbatch};
      for (std::size_t layer = 1; layer < costs.layers; ++layer)
        if (cut >> (layer - 1) & 1) plan.cuts.push_back(layer);
      degrees(degrees, plan);
    }
}

inline std::int64_t nearest(std::int64_t a, std::int64_t b) { return (2 * a + b) / (2 * b); }

/// Costs of a chain of layers on equal devices. A link in each direction joins any two devices, with a latency and a
/// bandwidth in bytes per ns. Gradients are summed by a ring. On t ranks an op takes 1/t of its time and sums its
/// outputs over the ranks `all_reduces` times. Each of c ranks that share the sequence has 1/c of a layer's work and
/// tensors, and sends its part of the input to the others.
inline PlanCosts chain_costs(const nlohmann::json& chain) {
  const std::int64_t latency = chain.at("link").at("latency_ns"), speed = chain.at("link").at("bytes_per_ns");
  const auto ring = [=](std::int64_t n, std::int64_t bytes) {
    return n == 1 ? 0 : 2 * (n - 1) * (latency + nearest(bytes, n * speed));
  };
  PlanCosts costs{.layers = chain.at("layers").size(),
                  .batch = chain.at("batch"),
                  .devices = chain.at("devices"),
                  .memory = Bytes{chain.at("memory_bytes").get<std::int64_t>()},
                  .layer_degrees = {{1}, {2}, {4}}};
  const std::int64_t state = chain.at("state_per_weight_byte");
  costs.layer = [layers = chain.at("layers"), state, ring](std::size_t layer, std::size_t samples, LayerDegree tensor) {
    const auto& each = layers[layer];
    const auto u = static_cast<std::int64_t>(samples), t = static_cast<std::int64_t>(tensor.ranks),
               c = static_cast<std::int64_t>(tensor.context);
    const auto of = [&](const char* key) { return each.at(key).get<std::int64_t>(); };
    const std::int64_t fixed = of("fixed_ns"), sums = of("all_reduces") * ring(t, nearest(u * of("output_bytes"), c)) +
                                                      ring(c, nearest(u * of("input_bytes"), 2));
    const std::int64_t weights = nearest(of("weight_bytes"), t);
    return LayerCost{.forward = Nanoseconds{fixed + nearest(u * of("forward_ns"), t * c) + sums},
                     .input_gradient = Nanoseconds{fixed + nearest(u * of("input_gradient_ns"), t * c) + sums},
                     .weight_gradient = Nanoseconds{fixed + nearest(u * of("weight_gradient_ns"), t * c)},
                     .input = Bytes{nearest(u * of("input_bytes"), c)},
                     .output = Bytes{nearest(u * of("output_bytes"), c)},
                     .saved = Bytes{nearest(u * nearest(of("saved_bytes"), t), c)},
                     .weights = Bytes{weights},
                     .state = Bytes{state * weights},
                     .launches = Nanoseconds{each.value("launches_ns", 0)}};
  };
  costs.transfer = [=](const ParallelPlan&, std::size_t, std::size_t, Bytes bytes) {
    return Nanoseconds{latency + nearest(bytes.count, speed)};
  };
  costs.all_reduce = [=](const ParallelPlan& plan, std::size_t device, Bytes weights) {
    return Nanoseconds{ring(static_cast<std::int64_t>(plan.degrees_of(device).data), weights.count)};
  };
  costs.update = [per_mb = chain.at("update_ns_per_mb").get<std::int64_t>()](Bytes weights, std::size_t shards,
                                                                             std::size_t) {
    return Nanoseconds{nearest(weights.count * per_mb, 1'000'000 * static_cast<std::int64_t>(shards))};
  };
  return costs;
}

/// Random chain for chain_costs(), with a batch of 8 samples, and `memory` bytes per device.
inline nlohmann::json random_chain(Random& random, std::size_t layers, std::size_t devices, std::int64_t memory) {
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  nlohmann::json chain{{"devices", devices},
                       {"batch", 8},
                       {"link", {{"latency_ns", 5000}, {"bytes_per_ns", between(20, 200)}}},
                       {"state_per_weight_byte", 2},
                       {"update_ns_per_mb", 2000},
                       {"memory_bytes", memory},
                       {"layers", nlohmann::json::array()}};
  for (std::size_t i = 0; i < layers; ++i)
    chain["layers"].push_back({{"forward_ns", between(50'000, 300'000)},
                               {"input_gradient_ns", between(50'000, 300'000)},
                               {"weight_gradient_ns", between(50'000, 300'000)},
                               {"weight_bytes", between(100'000, 600'000)},
                               {"fixed_ns", 5000},
                               {"input_bytes", between(100'000, 400'000)},
                               {"output_bytes", between(100'000, 400'000)},
                               {"saved_bytes", between(500'000, 3'000'000)},
                               {"all_reduces", between(0, 2)},
                               {"launches_ns", 20'000}});
  return chain;
}

}  // namespace trainyard::test
