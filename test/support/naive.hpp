#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::test {

/// The rules of simulate/simulate.hpp a second time, as plainly as they can be written and as slowly: it walks from
/// instant to instant and looks at every task at each; where bytes flow on fair channels, from nanosecond to
/// nanosecond. Shares no code with the engine. The diagnosis of memory shortage is left out.
Timeline naive_simulate(const Problem& problem, const Schedule& schedule);

}  // namespace trainyard::test
