#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rows.hpp"
#include "score.hpp"

namespace trainyard::bench {

/// Goal of a set of rows. `looks` is the number of times that its rows were scored to choose a form or a constant; the
/// record is in data/measured/README.md.
struct SetGoal {
  enum class Of { mean, median, scaling };
  const char *set, *part;
  double most;
  Of of;
  int looks;
};

/// A set of predicted rows with its score.
struct ScoredSet {
  std::string name, part;  // part: empty for the whole set
  Score score;
  const SetGoal* goal_of = nullptr;  // null: no goal

  /// The name of the set, or "- PART" for a part.
  std::string title() const { return part.empty() ? name : "- " + part; }
  /// "mean 8: reached", "median 10: missed"; empty if there is no goal.
  std::string goal() const;
};

/// Name of the set with the rows of several nodes of all sets.
inline constexpr const char* kSeveralNodes = "several nodes, all sets";

/// The sets of the outcomes with their parts, in the order of their first rows, then kSeveralNodes if it has rows.
std::vector<ScoredSet> scored_sets(std::span<const Outcome> outcomes);

/// Published claims of other simulators on the sources' rows, from simulators.json in the folder, as a paragraph each.
/// Empty if there is no such file.
std::string claims_text(const std::filesystem::path& folder, std::span<const MeasuredSource> sources);

/// A self-contained HTML page: a panel per set with predicted against measured steps, the scores, and the rows without
/// a prediction with their reasons.
std::string measured_page(std::span<const ScoredSet> sets, std::span<const Outcome> outcomes,
                          const std::string& claims);

}  // namespace trainyard::bench
