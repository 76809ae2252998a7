#pragma once

#include <cstdint>
#include <vector>

#include "trainyard/cost/profile.hpp"

namespace trainyard::cpu {

/// Cores that this process may run on: ascending, but second threads of one core last.
std::vector<int> usable_cores();
/// The calling thread runs on this core alone from now on.
void pin_to(int core);
/// Monotonic time in nanoseconds.
std::int64_t now_ns();
/// Processor, kernel, cores; the noise floor is measured over about `noise_ms` milliseconds (0: not).
HostInfo host_info(int noise_ms);

}  // namespace trainyard::cpu
