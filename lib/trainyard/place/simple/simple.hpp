#pragma once

#include <cstdint>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Everything on one device: the one with the least simulated makespan among those on which it fits in memory; where it
/// fits on none, the one with the fewest bytes too many. What a device cannot run goes where it runs fastest. Ties go
/// to the lower id.
Schedule place_single(const Problem& problem);

/// Colocation groups in the topological order of their first ops, dealt to the devices in turn; a device that cannot
/// run the group or has no room for it (see MemoryLedger) is passed over.
Schedule place_round_robin(const Problem& problem);

/// Each colocation group on a device drawn evenly from those that can run it and have room for it.
Schedule place_random(const Problem& problem, std::uint64_t seed);

}  // namespace trainyard
