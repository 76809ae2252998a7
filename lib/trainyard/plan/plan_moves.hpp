#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// The layers of a stage of a plan, with their costs, for moves of its recomputation.
class StageLayers {
 public:
  StageLayers(const PlanCosts& costs, const ParallelPlan& plan, std::size_t stage);

  /// `no`, then each level at which some layer of the stage recomputes anything.
  std::vector<StageRecompute> levels() const;
  /// `now` with one recomputed layer fewer or more; layers that recompute nothing at its level do not count.
  StageRecomputation fewer(StageRecomputation now) const;
  StageRecomputation more(StageRecomputation now) const;

 private:
  std::vector<LayerCost> layers_;
};

/// Runs the plan, and adds 1 to `evaluations`.
RatedPlan rated(const PlanCosts& costs, ParallelPlan plan, std::uint64_t& evaluations);

/// Calls offer(plan) for each move of a cut by one layer. If `offer` changes `plan`, but not the number of its cuts,
/// the next moves are from the changed one.
void each_move_of_cuts(const PlanCosts& costs, const ParallelPlan& plan,
                       const std::function<void(ParallelPlan)>& offer);

/// Calls offer(plan) for each move of the degrees of a plan whose stages have their own: one stage takes other degrees
/// of `choices`; devices move from one stage to another, both with new degrees; two stages swap their degrees.
void each_move_of_degrees(const ParallelPlan& plan, const std::vector<StageDegrees>& choices,
                          const std::function<void(ParallelPlan)>& offer);

/// Whether all stages have the same degrees.
bool all_alike(const std::vector<StageDegrees>& degrees);

/// Local search from `plan` over single moves of a cut or of a stage's recomputation. Takes the first improving move
/// until none is left: fewer bytes beyond the memory, then a shorter step. Adds the number of plans run to
/// `evaluations`.
RatedPlan improve_plan(const PlanCosts& costs, const PlanSearchOptions& options, RatedPlan plan,
                       std::uint64_t& evaluations);

/// Neighbourhood of the plan: the plans one move away that fit in memory by the estimate, fastest first. The moves are
///
///   - a cut moved by one or two layers;
///   - replicas exchanged for ranks in a stage with its own degrees;
///   - one recomputed layer more or fewer in a stage, or another level;
///   - microbatches of twice or half the samples, with or without slices;
///   - buckets of twice or half the size;
///   - another schedule, another ZeRO stage, sequence parallelism on or off.
std::vector<RatedPlan> moves_of(const PlanCosts& costs, const PlanSearchOptions& options, const ParallelPlan& plan);

/// The 1F1B plans whose stages have different degrees, a move of stages or devices away from the plan (itself 1F1B, of
/// equal degrees or not), that fit in memory by the estimate, fastest first. The moves are those of
/// each_move_of_degrees(), a stage split into two that divide its devices, and two neighbouring stages joined on as
/// many devices or fewer.
std::vector<RatedPlan> stage_moves_of(const PlanCosts& costs, const ParallelPlan& plan);

/// The plan with seven other bucket sizes, from 5/8 to 14/8 of its own. The size determines what is left for the last
/// bucket, whose sum and update come after all tasks.
std::vector<RatedPlan> bucket_sizes_of(const PlanCosts& costs, const ParallelPlan& plan);

/// The plan with buckets of PlanCosts::bucket and of 1/2, 1/4, ... of it, down to 3/100. With `finely` each size is
/// 71/100 of the one before, down to 1/50. Sums delay the ranks' collectives on shared links irregularly, so
/// neighbouring sizes do not predict these.
std::vector<RatedPlan> distant_bucket_sizes_of(const PlanCosts& costs, const ParallelPlan& plan, bool finely);

/// The plan with each other ZeRO stage from 0 to 3, whatever PlanSearchOptions allow.
std::vector<RatedPlan> zero_stages_of(const PlanCosts& costs, const ParallelPlan& plan);

}  // namespace trainyard
