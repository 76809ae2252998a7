#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// The layers of a plan's stage, by the costs that it has of them.
class StageLayers {
 public:
  StageLayers(const PlanCosts& costs, const ParallelPlan& plan, std::size_t stage);

  /// The levels at which a layer computes anything again, behind none.
  std::vector<StageRecompute> levels() const;
  /// One layer fewer or more, of those that compute anything again by it.
  StageRecomputation fewer(StageRecomputation now) const;
  StageRecomputation more(StageRecomputation now) const;

 private:
  std::vector<LayerCost> costs_;
};

/// The plan, with its cuts and what stages compute again changed by single moves, the first that is better, until none
/// is: by fewer bytes beyond the memory, then by the step. Adds the plans that it runs to `evaluations`.
RatedPlan improve_plan(const PlanCosts& costs, const PlanSearchOptions& options, RatedPlan plan,
                       std::uint64_t& evaluations);

/// What single moves lead to, by the estimate: a cut by a layer or two, replicas for ranks of a stage with degrees of
/// its own, a layer of a stage more or less that is computed again, or another level, microbatches of twice or half the
/// samples, in slices or whole, buckets of twice or half the gradients, another schedule, the sequence shared by tensor
/// ranks or not, and replicas that share the optimizer's state, weights too, or neither. Those that fit, the quickest
/// first.
std::vector<RatedPlan> moves_of(const PlanCosts& costs, const PlanSearchOptions& options, const ParallelPlan& plan);

/// The plan with buckets of other sizes, between half and twice as much: how much is left for the last one, whose sum
/// comes behind all tasks, and how much there is to update behind that, depends on all of them.
std::vector<RatedPlan> bucket_sizes_of(const PlanCosts& costs, const ParallelPlan& plan);

/// The plan with buckets of the usual size, and of 1/2, 1/4, ... to 1/50 of it, or between these, too: sums beside what
/// ranks communicate hold it up by turns, which neighbouring sizes do not tell.
std::vector<RatedPlan> distant_bucket_sizes_of(const PlanCosts& costs, const ParallelPlan& plan, bool finely);

/// The plan with the other ZeRO stages, whether PlanSearchOptions has them or not.
std::vector<RatedPlan> zero_stages_of(const PlanCosts& costs, const ParallelPlan& plan);

}  // namespace trainyard
