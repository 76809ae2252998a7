#pragma once

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard::detail {

/// Fills in `busy` and `exposed_communication` of every device and all of every channel, from the spans and transfers
/// of the timeline.
///
///     busy(device)    = sum of the durations of its ops
///     exposed(device) = length of (union of the transfers to or from it) without (union of its ops)
///     busy(channel)   = sum of the durations of the transfers that held it; gaps are not in it
///                       of a fair one: length of the union of its transfers, latencies included
///     bytes(channel)  = sum of their bytes, those of transfers too short for a nanosecond included; at most 2^63 - 1
void account_usage(const Problem& problem, const Placement& placement, Timeline& timeline);

}  // namespace trainyard::detail
