#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::test {

/// A second implementation of the rules of simulate/simulate.hpp, as plain as possible and slow. It advances from
/// instant to instant and examines every task at each; while bytes flow on fair channels, it advances by one
/// nanosecond. It shares no code with the engine. It does not diagnose memory shortage.
Timeline naive_simulate(const Problem& problem, const Schedule& schedule);

}  // namespace trainyard::test
