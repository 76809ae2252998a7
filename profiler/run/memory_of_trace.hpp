#pragma once

#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"
#include "trainyard/problem/timeline.hpp"

namespace trainyard {

/// Peak memory of each device in a run with these times: parameters and state throughout; a tensor from the start of
/// its op, or of its transfer to the device, until its last use there; workspace while its op runs.
IdMap<DeviceId, Bytes> peaks_of(const Problem& problem, const Placement& placement, const IdMap<OpId, Span>& ops,
                                const std::vector<Transfer>& transfers);

}  // namespace trainyard
