#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/place/judge/outcome.hpp"
#include "trainyard/place/parallel/plan_costs.hpp"
#include "trainyard/place/parallel/plan_schedule.hpp"
#include "trainyard/place/parallel/plan_setting.hpp"
#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

/// Tenths of the memory that planners plan with at least, where their plans do not fit as simulated.
inline constexpr std::int64_t kLeastTenths = 5;

/// What came of simulating plans: the best one, nothing where all are too large, and all by their outcome.
struct SimulatedPlans {
  struct Plan {
    Outcome outcome;
    RatedPlan rated;
    std::optional<Bytes> spare;  // PlannedSchedule::spare
  };
  std::optional<PlannedSchedule> best;
  std::vector<Plan> all;
  std::optional<Finding> refusal = {};  // of the last one that is too large

  void add(SimulatedPlans more) {
    if (!more.best) return;
    std::ranges::move(more.all, std::back_inserter(all));
    std::ranges::stable_sort(all, {}, &Plan::outcome);
    if (!best || more.best->outcome < best->outcome) best = std::move(more.best);
  }
};

/// Plans of a graph, simulated.
class PlanTrials {
 public:
  PlanTrials(PlanSetting& setting, PlanSearchOptions search)
      : setting_(setting), costs_(setting.chain.costs()), search_(std::move(search)) {}

  const PlanCosts& costs() const { return costs_; }
  const PlanSearchOptions& search() const { return search_; }
  /// Leaves what is simulated of plans in this order: the first ones, and of small plans all of so many ops together,
  /// of the same degrees and schedules too.
  void choose(std::vector<RatedPlan>& plans);
  /// The best of these plans: of small ones all are simulated, of others as many as are asked for, until so many fit.
  /// Throws OutOfTime where none was done in time.
  SimulatedPlans best_of(const std::vector<RatedPlan>& rated) {
    return best_of(rated, small_ ? rated.size() : setting_.options.candidates, !small_, true);
  }
  /// Where no plan is nearly as short as the estimate has `promised`, those that did so do not fit as simulated, and
  /// what is no shorter by the estimate was not looked at: small plans that do with less memory by the estimate.
  void search_with_less_memory(SimulatedPlans& found, std::vector<RatedPlan> tried, Nanoseconds promised);
  /// Where memory makes steps longer by the estimate: plans of ZeRO 2 and 3 with ranks or several stages that are
  /// shorter by it than what was `found`; search() and `bound` cover these too then. They are searched for apart:
  /// beside the usual plans they would be simulated in place of some that are shorter once simulated.
  SimulatedPlans search_with_more_zero(const Outcome& found, Nanoseconds promised, Nanoseconds& bound);
  /// The best of the plans that were simulated, fitted to memory where they are not yet, and moves from them, simulated
  /// too, as long as they make the step shorter; and for the best one the sizes of buckets.
  void improve(SimulatedPlans& found);

 private:
  double ops_of(const ParallelPlan& plan) const;
  /// By how it is simulated, which folds what is too large.
  double simulated_ops_of(const ParallelPlan& plan) const;
  /// The best of the plans in this order, simulated until `candidates` fit, of different degrees and schedules if
  /// `different`; each thread, or rank of a team, simulates the next one, and if `fitted` what that is fitted to.
  /// Throws OutOfTime where none was done in time.
  SimulatedPlans best_of(const std::vector<RatedPlan>& rated, std::size_t candidates, bool different, bool fitted);

  const PlanSetting& setting_;
  PlanCosts costs_;
  PlanSearchOptions search_;
  bool small_ = false, answered_ = false;
};

}  // namespace trainyard
