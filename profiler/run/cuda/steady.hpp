#pragma once

#include "profiler/run/cuda/gpu_state.hpp"

namespace trainyard::cuda {

/// Runs arithmetic on all SMs until the GPU's clock stays within 1 % over five readings, at most 1.5 s. Does nothing if
/// NVML does not report the clock. Throws as load_kernels(), and CudaError.
void warm_up(const Tables& tables, int gpu, const ClockLog& clocks);

/// Noise of equal work: (largest - smallest) / median over the medians of eight blocks of about 20 ms. It is measured
/// for fixed arithmetic and for a copy of 64 MiB within the GPU's memory; the larger of the two is returned. Timed by
/// events, so that a busy host has no effect. Throws as warm_up(), and MissingError if memory is too small.
double gpu_noise(const Tables& tables, int gpu);

}  // namespace trainyard::cuda
