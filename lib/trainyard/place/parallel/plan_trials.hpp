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

/// Least share of the memory, in tenths, that planners plan with if their plans do not fit as simulated.
inline constexpr std::int64_t kLeastTenths = 5;

/// Results of simulating plans: the best, none if all are too large; and all of them, by outcome.
struct SimulatedPlans {
  struct Plan {
    Outcome outcome;
    RatedPlan rated;
    std::optional<Bytes> spare;  // PlannedSchedule::spare
  };
  std::optional<PlannedSchedule> best;
  std::vector<Plan> all;
  std::optional<Finding> refusal = {};  // of the last plan that was too large

  void add(SimulatedPlans more) {
    if (!more.best) return;
    std::ranges::move(more.all, std::back_inserter(all));
    std::ranges::stable_sort(all, {}, &Plan::outcome);
    if (!best || more.best->outcome < best->outcome) best = std::move(more.best);
  }
};

/// Simulates plans of a graph.
class PlanTrials {
 public:
  PlanTrials(PlanSetting& setting, PlanSearchOptions search)
      : setting_(setting), costs_(setting.chain.costs()), search_(std::move(search)) {}

  const PlanCosts& costs() const { return costs_; }
  const PlanSearchOptions& search() const { return search_; }
  /// Decides which plans, in this order, are simulated. The plans are small if at least kTried of the first ones (or
  /// all) have kSmallOps ops or fewer together. Only these are then kept and all are simulated, also those of equal
  /// degrees and schedules.
  void choose(std::vector<RatedPlan>& plans);
  /// The best of these plans. Small plans are all simulated, others until the requested number fit. Throws OutOfTime if
  /// none was simulated in time.
  SimulatedPlans best_of(const std::vector<RatedPlan>& rated) {
    return best_of(rated, small_ ? rated.size() : setting_.options.candidates, !small_, true);
  }
  /// For small plans, searches with less memory and simulates the plans found. It applies while no plan is nearly as
  /// short as the estimate `promised`: the plans of that estimate do not fit as simulated, and plans no shorter by the
  /// estimate were not examined.
  void search_with_less_memory(SimulatedPlans& found, std::vector<RatedPlan> tried, Nanoseconds promised);
  /// If memory makes steps longer by the estimate: simulates plans of ZeRO 2 and 3 with ranks or several stages that
  /// are shorter by the estimate than what was `found`. search() and `bound` then cover these too. They are searched
  /// separately: among the usual plans they would displace some that are shorter once simulated.
  SimulatedPlans search_with_more_zero(const Outcome& found, Nanoseconds promised, Nanoseconds& bound);
  /// Fits the best simulated plans to memory if that is not done yet, and simulates moves from them as long as the step
  /// gets shorter; then likewise the best plans of other degrees or schedules, each within a budget of its own. The
  /// best plan is also tried with other sizes of buckets, and with other stages (stage_moves_of).
  void improve(SimulatedPlans& found);

 private:
  double ops_of(const ParallelPlan& plan) const;
  /// Ops of the plan as it is simulated, which is folded if it is too large.
  double simulated_ops_of(const ParallelPlan& plan) const;
  /// The best of the plans in this order, simulated until `candidates` fit, which must differ in degrees and schedule
  /// if `different`. Each thread, or rank of a team, simulates the next plan, and if `fitted` also the plans that it is
  /// fitted to. Throws OutOfTime if none was simulated in time.
  SimulatedPlans best_of(const std::vector<RatedPlan>& rated, std::size_t candidates, bool different, bool fitted);

  const PlanSetting& setting_;
  PlanCosts costs_;
  PlanSearchOptions search_;
  bool small_ = false, answered_ = false;
};

}  // namespace trainyard
