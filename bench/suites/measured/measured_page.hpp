#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rows.hpp"
#include "score.hpp"

namespace trainyard::bench {

/// What a set is to reach, and how often its rows were scored in order to choose a form or a constant: data/measured/
/// README.md keeps the account.
struct SetGoal {
  enum class Of { mean, median, scaling };
  const char *set, *part;
  double most;
  Of of;
  int looks;
};

/// A set of rows that have a prediction.
struct ScoredSet {
  std::string name, part;  // part: empty for the whole set
  Score score;
  const SetGoal* goal_of = nullptr;  // null: none

  /// The name; of a part "- " and the part.
  std::string title() const { return part.empty() ? name : "- " + part; }
  /// "mean 8: reached", "median 10: missed"; empty where there is none.
  std::string goal() const;
};

/// All rows of several nodes, whatever their set.
inline constexpr const char* kSeveralNodes = "several nodes, all sets";

/// The sets of the outcomes and their parts, in the order of their first rows; then all rows of several nodes, if any.
std::vector<ScoredSet> scored_sets(std::span<const Outcome> outcomes);

/// What simulators.json in the folder says of the sources' rows, a line a simulator; empty where it is not there.
std::string claims_text(const std::filesystem::path& folder, std::span<const MeasuredSource> sources);

/// One HTML file that needs nothing beside itself: predicted against measured steps, a panel a set, the scores, and the
/// rows without a prediction with their reasons.
std::string measured_page(std::span<const ScoredSet> sets, std::span<const Outcome> outcomes,
                          const std::string& claims);

}  // namespace trainyard::bench
