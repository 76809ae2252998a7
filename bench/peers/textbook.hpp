#pragma once

#include <cstdint>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::bench {

/// The event loop that textbooks show, for fifo on one link per ordered pair of devices: a priority queue of events on
/// the heap with a virtual function each, hash maps from ids to queues. The same rules, and so the same makespan;
/// durations must be positive.
Nanoseconds textbook_makespan(const Problem& problem, const Schedule& schedule);

}  // namespace trainyard::bench
