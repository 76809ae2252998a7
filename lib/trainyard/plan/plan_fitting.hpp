#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// Estimated peak of the plan's fullest device at the point where its simulation would fill the memory; the simulation
/// left `spare` bytes. Assumes that both grow by the same factor or by the same bytes, whichever gives less.
Bytes estimated_when_full(const PlanStep& run, Bytes memory, Bytes spare);

/// Finds plans that differ from a simulated one in cuts and recomputation, to free the memory that the simulation
/// lacked or to use what it left. The next plan is the best by the estimate. If the estimate finds none, all blocks are
/// recomputed if memory is lacking, or one layer of a stage fewer if memory is left.
class Fitting {
 public:
  /// Upper limit on the plans found.
  static constexpr std::size_t kMost = 4;

  /// Keeps a reference to the costs. `fill`: also look for faster plans if memory is left. Ignores
  /// PlanSearchOptions::stop, so that the plans found depend only on the memory that each one left.
  Fitting(const PlanCosts& costs, const PlanSearchOptions& options, RatedPlan first, bool fill);

  /// The next plan to simulate, or null. The last one left `spare` bytes on its fullest device: negative if it lacked
  /// memory, nothing if memory does not bind.
  const RatedPlan* next(std::optional<Bytes> spare);
  /// Plan i of those so far; plan 0 is the one given to the constructor.
  const RatedPlan& plan(std::size_t i) const { return tried_[i]; }

 private:
  bool is_tried(const ParallelPlan& plan) const;
  /// The last plan improved within estimated_when_full(), if the result fits there and is new.
  std::optional<RatedPlan> estimated(Bytes spare) const;
  std::optional<RatedPlan> smaller(Bytes spare) const;
  std::optional<RatedPlan> quicker(Bytes spare) const;

  const PlanCosts& costs_;
  PlanSearchOptions options_;
  bool fill_;
  std::deque<RatedPlan> tried_;
};

}  // namespace trainyard
