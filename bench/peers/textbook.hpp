#pragma once

#include <cstdint>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::bench {

/// Makespan by a textbook event loop, for policy fifo and one link per ordered pair of devices: a priority queue of
/// heap-allocated events, each with a virtual function, and hash maps from ids to queues. The rules, and therefore the
/// makespan, are those of simulate(). Durations must be positive.
Nanoseconds textbook_makespan(const Problem& problem, const Schedule& schedule);

}  // namespace trainyard::bench
