#pragma once

#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// The most that each device held at once in a run with these times: parameters and state all along; a tensor from the
/// start of its op, or of the transfer that brings it, until nobody needs it there; workspace while its op runs.
IdMap<DeviceId, Bytes> peaks_of(const Problem& problem, const Placement& placement, const IdMap<OpId, Span>& ops,
                                const std::vector<Transfer>& transfers);

}  // namespace trainyard
