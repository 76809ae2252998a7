#pragma once

#include <vector>

#include "trainyard/cost/profile.hpp"

namespace trainyard {

/// Cores that this process may run on, ascending; second hardware threads of a core come last.
std::vector<int> usable_cores();
/// Pins the calling thread to this core.
void pin_to(int core);
/// Processor, kernel, cores. The noise floor is measured over about `noise_ms` milliseconds (0: not at all).
HostInfo host_info(int noise_ms);

}  // namespace trainyard
