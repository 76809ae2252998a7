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
      const auto low = std::min(a.measured, b.measured), high = std::max(a.measured, b.measured);
      if (static_cast<double>(high.count) < 1.1 * static_cast<double>(low.count)) continue;
      ++ranking.pairs;
      if (a.predicted != b.predicted && (a.predicted < b.predicted) == (a.measured < b.measured)) ++right;
    }
  if (ranking.pairs > 0) ranking.agreement = static_cast<double>(right) / static_cast<double>(ranking.pairs);
  const auto chosen =
      std::min_element(validations.begin(), validations.end(),
                       [](const Validation& a, const Validation& b) { return a.predicted < b.predicted; });
  const auto best = std::min_element(validations.begin(), validations.end(),
                                     [](const Validation& a, const Validation& b) { return a.measured < b.measured; });
  if (best != validations.end() && best->measured.count > 0)
    ranking.regret =
        static_cast<double>(chosen->measured.count - best->measured.count) / static_cast<double>(best->measured.count);
  for (const Validation& each : validations) {
    ranking.mean_error += std::abs(each.total_error) / static_cast<double>(validations.size());
    ranking.worst_error = std::max(ranking.worst_error, std::abs(each.total_error));
  }
  return ranking;
}

}  // namespace trainyard
