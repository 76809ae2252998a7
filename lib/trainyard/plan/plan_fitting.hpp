#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// A plan's memory by the estimate, on its fullest device, were it to fill the memory as simulated, which left so much:
/// both grow alike, or by as much, whichever is less.
Bytes estimated_when_full(const PlanStep& run, Bytes memory, Bytes spare);

/// Plans like one that was simulated, with cuts and recomputation as it asks for that leaves or lacks so much memory:
/// as the estimate has it, or where it knows of none, all blocks computed again; and where that was simulated, too,
/// with memory to spare, one layer fewer of a stage.
class Fitting {
 public:
  /// How many plans it finds at most.
  static constexpr std::size_t kMost = 4;

  /// Keeps a reference to the costs. `fill`: what leaves memory is to be made quicker, too. Does not ask
  /// PlanSearchOptions::stop: the same is found again from what each left.
  Fitting(const PlanCosts& costs, const PlanSearchOptions& options, RatedPlan first, bool fill);

  /// The next to simulate, behind the last one, which left so much of the fullest device; negative where it lacks it,
  /// nothing where memory does not bind.
  const RatedPlan* next(std::optional<Bytes> spare);
  /// Those found so far, from the first on, which was given.
  const RatedPlan& plan(std::size_t i) const { return tried_[i]; }

 private:
  bool is_tried(const ParallelPlan& plan) const;
  /// By the estimate, if it is within what the last one has where it fills the memory.
  std::optional<RatedPlan> estimated(Bytes spare) const;
  std::optional<RatedPlan> smaller(Bytes spare) const;
  std::optional<RatedPlan> quicker(Bytes spare) const;

  const PlanCosts& costs_;
  PlanSearchOptions options_;
  bool fill_;
  std::deque<RatedPlan> tried_;
};

}  // namespace trainyard
