#pragma once

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/collective_run.hpp"
#include "trainyard/problem/problem.hpp"

namespace trainyard::detail {

/// Runs of a problem's collectives for a sequence of placements. A collective is looked up again only if an op before
/// or after it has moved. Refers to the problem: keep it alive. A copy starts empty.
class CollectivesInPlace {
 public:
  explicit CollectivesInPlace(const Problem& problem) : problem_(problem), runs_(problem) {
    if (graph_.has_collectives()) known_.assign(graph_.op_count(), nullptr);
  }
  CollectivesInPlace(const CollectivesInPlace& other) : CollectivesInPlace(other.problem_) {}
  CollectivesInPlace& operator=(const CollectivesInPlace&) = delete;

  /// Sets the placement for the calls that follow.
  void place(const Placement& placement) {
    if (placement_.size() == 0) placement_ = placement;
    if (placement_ == placement) return;
    for (const OpId op : graph_.ops()) {
      if (placement_[op] == placement[op]) continue;
      placement_[op] = placement[op];
      for (const OpId later : graph_.before(op)) known_[later] = nullptr;
      for (const OpId earlier : graph_.after(op)) known_[earlier] = nullptr;
    }
  }
  const CollectiveRun& of(OpId collective) {
    const CollectiveRun*& run = known_[collective];
    if (run == nullptr) run = &runs_.of(collective, placement_);
    return *run;
  }

 private:
  const Problem& problem_;
  const Graph& graph_ = problem_.graph();
  CollectiveRuns runs_;
  Placement placement_;
  IdMap<OpId, const CollectiveRun*> known_;  // null: not looked up yet
};

}  // namespace trainyard::detail
