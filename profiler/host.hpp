#pragma once

#include <vector>

#include "trainyard/cost/profile.hpp"

namespace trainyard {

/// Cores that this process may run on: ascending, but second threads of one core last.
std::vector<int> usable_cores();
/// The calling thread runs on this core alone from now on.
void pin_to(int core);
/// Processor, kernel, cores; the noise floor is measured over about `noise_ms` milliseconds (0: not).
HostInfo host_info(int noise_ms);

}  // namespace trainyard
