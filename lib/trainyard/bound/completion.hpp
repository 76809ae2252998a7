#pragma once

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/models.hpp"

namespace trainyard {

/// Lower bound on the sum of all models' completion times, over all schedules.
///
/// Proof: let L(m) be the longest chain of model m's ops with their shortest durations, and W(m) the sum of these. When
/// the j-th model ends, j models have ended, each no sooner than its own L: so it ends no sooner than the j-th smallest
/// L. By then the work of j models is done: so it ends no sooner than the sum of the j smallest W over the number of
/// devices. The sum over j of the larger of the two, rounded up, is the bound.
/// Throws InputError as check_models() does.
Nanoseconds completion_bound(const Problem& problem, const Models& models);

}  // namespace trainyard
