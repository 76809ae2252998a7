#pragma once

#include <span>
#include <string>

#include "profiler/run/cuda/api.hpp"

namespace trainyard::cuda {

/// The kernels that no vendor library has, as one CUDA C++ text: element-wise ops and their gradients, softmax and
/// layer normalization by row, embedding, dropout, transposition, optimizer updates, and what measuring needs (a wait
/// of a given time, a sweep of the L2 cache, a copy by SMs). All on float, all `extern "C"`.
const char* kernel_source();
/// Their names.
std::span<const char* const> kernel_names();

/// The text compiled for one architecture, "sm_90": machine code for cuModuleLoadData, made without a GPU. Throws
/// std::runtime_error with the compiler's log.
std::string compile_kernels(const Nvrtc& nvrtc, const std::string& architecture);

/// Makes the GPU the current one, compiles the kernels for it and loads them: the module, which stays loaded. Throws
/// MissingError without NVRTC, CudaError.
void* load_kernels(const Tables& tables, int gpu);

}  // namespace trainyard::cuda
