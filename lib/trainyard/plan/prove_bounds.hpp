#pragma once

#include <functional>
#include <vector>

#include "trainyard/plan/candidates.hpp"
#include "trainyard/plan/parallel_plan.hpp"
#include "trainyard/plan/plan_search.hpp"
#include "trainyard/plan/schedule_bound.hpp"

namespace trainyard {

/// Raises the bounds of candidates towards `best`, in passes with rising aims: 0.9 of `best`, up to all of it. Stops if
/// a bound stays below the aim of a pass, or when a fixed effort is spent. Skips candidates that are not `provable`;
/// they belong to `candidates`, since the least bound of these is the caller's result. `proof` computes a bound with an
/// upper limit on its rounds.
void prove_bounds(const std::vector<PlanCandidate*>& candidates, Nanoseconds best, const PlanSearchOptions& options,
                  const std::function<bool(const ParallelPlan&)>& provable,
                  const std::function<ScheduleBound(const ParallelPlan&, Nanoseconds aim, std::size_t rounds)>& proof);

}  // namespace trainyard
