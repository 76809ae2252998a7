#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/plan/parallel_plan.hpp"

namespace trainyard {

/// Cache of layer costs by microbatch size and degree. One thread fills it; others may then read it.
class LayerTables {
 public:
  explicit LayerTables(const PlanCosts& costs) : costs_(costs) {}

  /// Announces the pairs of `asked` that are not cached (PlanCosts::prepare_layers).
  void prepare(std::set<std::pair<std::size_t, LayerDegree>> asked, unsigned threads) const {
    std::erase_if(asked, [&](const auto& each) { return tables_.contains(each); });
    if (costs_.prepare_layers && !asked.empty()) costs_.prepare_layers(asked, threads);
  }
  /// Computed on the first call. Throws InputError ("negative-time") if a pass is below 0 ns.
  const std::vector<LayerCost>& of(std::size_t samples, LayerDegree tensor) {
    auto [at, added] = tables_.try_emplace({samples, tensor});
    if (added)
      for (std::size_t layer = 0; layer < costs_.layers; ++layer)
        at->second.push_back(checked(costs_.layer(layer, samples, tensor)));
    return at->second;
  }
  /// Computed by of() before; thread-safe.
  const std::vector<LayerCost>& known(std::size_t samples, LayerDegree tensor) const {
    return tables_.at({samples, tensor});
  }
  /// PlanCosts whose `layer` reads these tables through known(). The tables must outlive it.
  PlanCosts known_costs() const {
    PlanCosts costs = costs_;
    costs.layer = [this](std::size_t layer, std::size_t samples, LayerDegree tensor) {
      return known(samples, tensor)[layer];
    };
    return costs;
  }

 private:
  static LayerCost checked(LayerCost cost) {
    if (std::min(cost.forward, cost.input_gradient + cost.weight_gradient) < Nanoseconds{0})
      refuse("negative-time", "a pass of a layer takes a negative time", "give 0 ns or more");
    return cost;
  }

  const PlanCosts& costs_;
  std::map<std::pair<std::size_t, LayerDegree>, std::vector<LayerCost>> tables_;
};

}  // namespace trainyard
