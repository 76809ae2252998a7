#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/place/auto/clusters.hpp"
#include "trainyard/place/auto/local_search.hpp"
#include "trainyard/place/auto/windows.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// A problem that is searched, and what the search needs to know of it.
struct SearchGround {
  explicit SearchGround(Problem of);

  Problem problem;
  std::vector<Clusters> levels;
  bool memory_binds;
  Nanoseconds bound;  // no schedule of this problem is shorter
};

/// One search: LocalSearch, and in turn with it WindowSearch where the order is strict, priorities by the placement's
/// own bottom levels where it is by priority.
class Island {
 public:
  /// The ground must outlive the island.
  Island(const SearchGround& ground, const Schedule& start, Random random);

  const SearchGround& ground() const { return *ground_; }
  const Schedule& best() const { return local_.best(); }
  const Outcome& best_outcome() const { return local_.best_outcome(); }
  std::uint64_t evaluations() const { return local_.evaluations() + windows_.evaluations(); }

  /// Windows have a share of the budget, saved up over the runs until it is worth a window. What relinking or a window
  /// has spent beyond it is taken from the next run. `heat` as of LocalSearch.
  void run(const Budget& budget, const std::function<bool()>& stop, double heat);
  /// Goes on from another schedule of the same ground, on the way from there to its own best one.
  void restart(const Schedule& start) {
    const Placement own = local_.best().placement;
    local_.restart(start);
    local_.relink(own, kRelinking);
  }

 private:
  static constexpr std::size_t kRelinking = 30;  // steps

  const SearchGround* ground_;
  LocalSearch local_;
  WindowSearch windows_;
  std::uint64_t granted_ = 0;  // evaluations by all budgets
  double saved_ = 0;           // of them, for windows
  Outcome reordered_{};        // the best one whose placement was last asked for by bottom levels
};

}  // namespace trainyard
