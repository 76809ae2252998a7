#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Runs the schedule: a pure function, safe to call from many threads at once.
/// Throws InputError where check_schedule would.
Timeline simulate(const Problem& problem, const Schedule& schedule);

}  // namespace trainyard
