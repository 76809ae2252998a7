#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::detail {

/// Sets `busy` and `exposed_communication` of every device and all fields of every channel, from the spans and
/// transfers of the timeline, as defined by simulate().
void account_usage(const Problem& problem, const Placement& placement, Timeline& timeline);

}  // namespace trainyard::detail
