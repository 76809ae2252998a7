#include "score.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "trainyard/core/statistics.hpp"

namespace trainyard::bench {
namespace {

struct Plans {
  std::vector<double> predicted, measured;
};

auto group_of(const MeasuredRow& row) {
  return std::tuple{row.model, row.framework, row.gpu_kind, row.precision, row.gpus, row.batch, row.sequence};
}

double regret(const Plans& plans) {
  const auto chosen = std::ranges::min_element(plans.predicted) - plans.predicted.begin();
  return plans.measured[static_cast<std::size_t>(chosen)] / *std::ranges::min_element(plans.measured) - 1;
}

}  // namespace

Score score(std::span<const Outcome> outcomes) {
  std::vector<double> sizes, errors, losses, taus, regrets;
  std::map<decltype(group_of(*outcomes.front().row)), Plans> groups;
  for (const Outcome& each : outcomes) {
    errors.push_back(each.error());
    sizes.push_back(std::abs(each.error()));
    Plans& plans = groups[group_of(*each.row)];
    plans.predicted.push_back(*each.predicted);
    plans.measured.push_back(*each.row->seconds);
    if (each.ideal) losses.push_back(std::abs(*each.ideal / *each.predicted - *each.ideal / *each.row->seconds));
  }
  for (const auto& [key, plans] : groups) {
    if (plans.measured.size() < 2) continue;
    regrets.push_back(regret(plans));
    if (const auto tau = kendall_tau(plans.predicted, plans.measured)) taus.push_back(*tau);
  }
  Score result{.rows = errors.size(),
               .mean = mean_of(sizes),
               .median = median_of(sizes),
               .p90 = quantile_of(sizes, 0.9),
               .bias = mean_of(errors),
               .groups = regrets.size(),
               .tau = {},
               .regret = {},
               .scaling = {}};
  if (!taus.empty()) result.tau = mean_of(taus);
  if (!regrets.empty()) result.regret = mean_of(regrets);
  if (losses.size() == errors.size()) result.scaling = mean_of(losses);
  return result;
}

}  // namespace trainyard::bench
