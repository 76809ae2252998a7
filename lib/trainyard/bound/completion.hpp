#pragma once

#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/transform/models.hpp"

namespace trainyard {

/// What the completion times of all models add up to at least, whatever the schedule.
///
/// Proof: let L(m) be the longest chain of model m's ops with their shortest durations, and W(m) the sum of these. The
/// j-th model to end ends no sooner than the j-th smallest L, since j models have ended by then, each of them no sooner
/// than its own; nor than the sum of the j smallest W over the number of devices, since the work of j models has been
/// done by then. So the sum over j of the larger of the two, rounded up, is a bound.
Nanoseconds completion_bound(const Problem& problem, const Models& models);

}  // namespace trainyard
