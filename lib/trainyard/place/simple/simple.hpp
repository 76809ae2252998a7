#pragma once

#include <cstdint>

#include "trainyard/problem/problem.hpp"
#include "trainyard/problem/schedule.hpp"

namespace trainyard {

/// Everything on one device: of the devices on which it fits in memory, the one with the least simulated makespan; if
/// it fits on none, the one with the least excess. Ops that a device cannot run go where they run fastest. Ties go to
/// the lower id.
Schedule place_single(const Problem& problem);

/// Colocation groups in the topological order of their first ops, dealt to the devices in turn. A device that cannot
/// run the group, or has no room for it (see MemoryLedger), is skipped.
Schedule place_round_robin(const Problem& problem);

/// Each colocation group on a device drawn uniformly from those that can run it and have room for it.
Schedule place_random(const Problem& problem, std::uint64_t seed);

}  // namespace trainyard
