#include "profiler/validate/rank.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard {

Ranking rank(std::span<const Validation> validations) {
  Ranking ranking;
  std::size_t right = 0;
  for (std::size_t i = 0; i < validations.size(); ++i)
    for (std::size_t j = i + 1; j < validations.size(); ++j) {
      const Validation &a = validations[i], &b = validations[j];
      const auto low = std::min(a.makespan(), b.makespan()), high = std::max(a.makespan(), b.makespan());
      if (static_cast<double>(high.count) < 1.1 * static_cast<double>(low.count)) continue;
      ++ranking.pairs;
      if (a.predicted != b.predicted && (a.predicted < b.predicted) == (a.makespan() < b.makespan())) ++right;
    }
  if (ranking.pairs > 0) ranking.agreement = static_cast<double>(right) / static_cast<double>(ranking.pairs);
  const auto chosen =
      std::min_element(validations.begin(), validations.end(),
                       [](const Validation& a, const Validation& b) { return a.predicted < b.predicted; });
  const auto best =
      std::min_element(validations.begin(), validations.end(),
                       [](const Validation& a, const Validation& b) { return a.makespan() < b.makespan(); });
  if (best != validations.end() && best->makespan().count > 0)
    ranking.regret = static_cast<double>(chosen->makespan().count - best->makespan().count) /
                     static_cast<double>(best->makespan().count);
  for (const Validation& each : validations) {
    ranking.mean_error += std::abs(each.total_error) / static_cast<double>(validations.size());
    ranking.worst_error = std::max(ranking.worst_error, std::abs(each.total_error));
  }
  return ranking;
}

}  // namespace trainyard
