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

/// A graph that is searched, with the data that searches on it share.
struct SearchGround {
  explicit SearchGround(Problem of);

  Problem problem;
  std::vector<Clusters> levels;
  bool memory_binds;
  Nanoseconds bound;  // lower bound on the makespan
};

/// One of the searches that run side by side. LocalSearch alternates with WindowSearch under a strict order; under
/// priorities, with a trial of the bottom levels of the best placement as priorities.
class Island {
 public:
  /// The ground must outlive the island.
  Island(const SearchGround& ground, const Schedule& start, Random random);

  const SearchGround& ground() const { return *ground_; }
  const Schedule& best() const { return local_.best(); }
  const Outcome& best_outcome() const { return local_.best_outcome(); }
  std::uint64_t evaluations() const { return local_.evaluations() + windows_.evaluations(); }

  /// Windows get a share of the budget, saved up over the runs until it suffices for a window. Evaluations that
  /// relinking or a window spends beyond it are taken from the next run. `heat`: as in LocalSearch::run.
  void run(const Budget& budget, const std::function<bool()>& stop, double heat);
  /// Restarts from another schedule of the same ground, followed by path relinking towards this island's best
  /// placement.
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
  std::uint64_t granted_ = 0;  // evaluations, by all budgets so far
  double saved_ = 0;           // evaluations for windows
  Outcome reordered_{};        // best outcome after bottom levels were last tried
};

}  // namespace trainyard
