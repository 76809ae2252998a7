#include "trainyard/plan/candidates.hpp"

#include <set>
#include <utility>

#include "trainyard/core/parallel.hpp"

namespace trainyard {
namespace {

/// Upper limits between two checks of the time limit: candidates bounded (under a millisecond each) and layer tables
/// filled, one for each microbatch and degree (tens of milliseconds each for large networks).
constexpr std::size_t kMostCandidates = 1024, kMostTables = 16;

}  // namespace

BoundedCandidates bounded_candidates(const PlanCosts& costs, const PlanSearchOptions& options, LayerTables& tables,
                                     LeastMemory& memory,
                                     const std::function<Nanoseconds(const ParallelPlan&)>& bound) {
  std::vector<ParallelPlan> plans;
  each_candidate(costs, options, [&](ParallelPlan plan) {
    if (memory.may_hold(plan) && (!options.allowed || options.allowed(plan))) plans.push_back(std::move(plan));
  });
  BoundedCandidates result;
  for (std::size_t first = 0, count = 0; first < plans.size(); first += count) {
    if (!result.all.empty() && options.stop && options.stop()) {
      result.cut_short = true;
      break;
    }
    std::set<std::pair<std::size_t, LayerDegree>> layers;
    for (count = 0; first + count < plans.size() && count < std::min(kMostCandidates, first + 1); ++count) {
      const ParallelPlan& plan = plans[first + count];
      layers.emplace(plan.microbatch, plan.layer_degree());
      for (std::size_t device = 0; costs.kind && device < plan.devices_in_row(); ++device)
        layers.emplace(plan.microbatch, costs.degree_of(plan, device));
      if (layers.size() >= kMostTables) {
        ++count;
        break;
      }
    }
    tables.prepare(layers, options.threads);
    for (const auto& [microbatch, degree] : layers) tables.of(microbatch, degree);
    std::vector<Nanoseconds> bounds(count, kLongestTime);
    parallel_for(thread_count(options.threads), count, [&](std::size_t i) { bounds[i] = bound(plans[first + i]); });
    for (std::size_t i = 0; i < count; ++i)
      if (bounds[i] < kLongestTime) result.all.push_back({std::move(plans[first + i]), bounds[i]});
  }
  return result;
}

}  // namespace trainyard
