#pragma once

#include <cstdint>

#include "trainyard/core/random.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard::test {

/// Schedule with each colocation group on a random device; all devices must be able to run it.
inline Schedule random_groups(const Problem& problem, std::uint64_t seed) {
  Random random{seed};
  Schedule schedule{.placement = Placement(problem.op_count(), DeviceId{0}), .rewrites = problem.rewrites()};
  for (const GroupId group : problem.groups()) {
    const DeviceId device{random.below(problem.device_count())};
    for (const OpId op : problem.group_ops(group)) schedule.placement[op] = device;
  }
  check_schedule(problem, schedule);
  return schedule;
}

}  // namespace trainyard::test
