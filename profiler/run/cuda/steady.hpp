#pragma once

#include "profiler/run/cuda/gpu_state.hpp"

namespace trainyard::cuda {

/// Arithmetic on all SMs until the GPU's clock is within 1 % over five readings, a second and a half at most; nothing
/// where NVML does not tell the clock. Throws as load_kernels(), and CudaError.
void warm_up(const Tables& tables, int gpu, const ClockLog& clocks);

/// How much the same work scatters: (largest - smallest) / median over the medians of eight blocks of about 20 ms, each
/// of fixed arithmetic, and each of a copy of 64 MiB within the GPU's memory; the larger of the two. By events, so that
/// a busy host plays no part. Throws as warm_up(), MissingError where there is no room.
double gpu_noise(const Tables& tables, int gpu);

}  // namespace trainyard::cuda
