#pragma once

#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// From `at` until the next point's `at` (the last one: until the end of the step), `held` bytes are held.
struct MemoryPoint {
  Nanoseconds at;
  Bytes held;

  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

/// What each device holds over time: parameters and state for the whole step; a tensor where it was produced, from the
/// start of its op until its op, its last consumer there and its last outgoing transfer have ended, or the end of the
/// step where it is kept; a tensor that arrived, from the start of its transfer until its last consumer there has
/// ended; a workspace while its op runs. Points ascend strictly in time, the first is at 0, none is at or after the
/// makespan, and neighbours differ. The largest `held` is the timeline's peak, its first point the peak's time.
IdMap<DeviceId, std::vector<MemoryPoint>> memory_curves(const Problem& problem, const Placement& placement,
                                                        const Timeline& timeline);

}  // namespace trainyard
