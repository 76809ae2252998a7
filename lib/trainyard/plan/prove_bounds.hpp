#pragma once

#include <functional>
#include <vector>

#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/plan/schedule_bound.hpp"

namespace trainyard {

/// Raises the bounds of candidates of which `provable` says so, towards `best`: first all some way, then further, until
/// one stays below the aim of a round or a fixed effort is spent. The least bound of `candidates` is the result, so
/// those that are not provable are among them.
void prove_bounds(const std::vector<PlanCandidate*>& candidates, Nanoseconds best, const PlanSearchOptions& options,
                  const std::function<bool(const ParallelPlan&)>& provable,
                  const std::function<ScheduleBound(const ParallelPlan&, Nanoseconds aim, std::size_t rounds)>& proof);

}  // namespace trainyard
