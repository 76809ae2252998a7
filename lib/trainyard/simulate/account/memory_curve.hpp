#pragma once

#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/core/quantity.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// `held` bytes are held from `at` until the next point's `at`, from the last point on until the end of the step.
struct MemoryPoint {
  Nanoseconds at;
  Bytes held;

  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

/// The bytes that each device holds over time, by the rules of simulate(). Points ascend strictly in time, the first is
/// at 0, none is at or after the makespan, and neighbours differ. The largest `held` is the timeline's peak, its first
/// point the peak's time.
IdMap<DeviceId, std::vector<MemoryPoint>> memory_curves(const Problem& problem, const Placement& placement,
                                                        const Timeline& timeline);

}  // namespace trainyard
