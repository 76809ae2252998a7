#pragma once

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/rewrite/models.hpp"

namespace trainyard {

/// Lower bound on the sum of all models' completion times, over all schedules.
///
/// Proof: let L(m) be the longest chain of ops that ends in model m, with their shortest durations, and W(m) the sum of
/// the model's shortest durations. When the j-th model ends, j models have ended, each at its L or later, so the time
/// is at least the j-th smallest L. By then the work of j models is done, so the time is also at least the sum of the j
/// smallest W divided by the number of devices, rounded up. The bound is the sum over j of the larger of the two.
/// Throws InputError as check_models() does.
Nanoseconds completion_bound(const Problem& problem, const Models& models);

}  // namespace trainyard
