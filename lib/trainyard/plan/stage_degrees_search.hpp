#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trainyard/plan/layer_tables.hpp"
#include "trainyard/plan/plan_search.hpp"

namespace trainyard {

struct StageDegreesFound {
  std::vector<RatedPlan> best;  // plans that fit in memory; differ in degrees or microbatch
  Nanoseconds bound;            // lower bound for the searched plans in memory; kLongestTime: no plan is left
  std::uint64_t evaluations = 0;
  bool exact = false;  // every plan that could be shorter than the best and `least` was evaluated
};

/// Searches for the best 1F1B plans whose stages have different degrees. Plans that cannot be shorter than `least`, the
/// best step of other plans, are pruned.
///
/// Classes of microbatch size and ZeRO stage are enumerated in the order of their bounds (stage_degrees_bound.hpp),
/// which are tightened before a class is searched. A beam search builds the stages from the last one on. For each
/// number of stages, first layer and devices left, the best partial plans (all, if a class has at most 4096 plans) are
/// extended by a stage of every length and degrees. A stage takes the recomputation with the shortest time at which its
/// min(m, number) microbatches in flight fit. The estimate is
///
///     sum of (t_i + transfers) + (m - 1) max(t_i, transfers, sum from i on / stages from i on)
///     + the time by which sums of gradients and updates end later
///
/// with t_i the time of stage i, and the work of the remaining layers spread over the remaining devices. run_plan()
/// evaluates the best complete plans. Local search improves them by single moves of a cut, of a stage's degrees, and of
/// degrees or devices between two stages. A stage has up to eight devices or a power of two. On more than 64 devices
/// nothing is searched, and there is no bound.
StageDegreesFound search_stage_degrees(const PlanCosts& costs, const PlanSearchOptions& options, LayerTables& tables,
                                       std::optional<Nanoseconds> least);

}  // namespace trainyard
