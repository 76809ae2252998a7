#pragma once

#include "profiler/run/cuda/api.hpp"
#include "trainyard/cost/profile.hpp"

namespace trainyard::cuda {

/// Clocks, power and throttling of a GPU now, by NVML; empty where that is missing.
Details gpu_state(const Tables& tables, int gpu);

}  // namespace trainyard::cuda
