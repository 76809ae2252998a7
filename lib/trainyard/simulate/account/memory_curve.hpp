#pragma once

#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// `held` bytes are held from `at` to the next point's `at`; after the last point, to the end of the step.
struct MemoryPoint {
  Nanoseconds at;
  Bytes held;

  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

/// Bytes held on each device over time, by the rules of simulate(). Points ascend strictly in time and neighbours
/// differ. The first point is at 0, and none is at or after the makespan. The largest `held` is the timeline's peak;
/// the first point with that value is at the peak's time.
IdMap<DeviceId, std::vector<MemoryPoint>> memory_curves(const Problem& problem, const Placement& placement,
                                                        const Timeline& timeline);

}  // namespace trainyard
