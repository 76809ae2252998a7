#pragma once

#include <span>
#include <string>
#include <vector>

#include "profiler/run/cuda/owned.hpp"

namespace trainyard::cuda {

/// The kernels that no vendor library has, as one CUDA C++ text: element-wise ops and their gradients, softmax and
/// layer normalization by row, embedding, dropout, transposition, optimizer updates, and what measuring needs (a wait
/// of a given time, a sweep of the L2 cache). On float or bfloat16, all `extern "C"`.
const char* kernel_source();
/// Their names.
std::span<const char* const> kernel_names();

/// The text compiled for one architecture, "sm_90": machine code for cuLibraryLoadData, made without a GPU. Throws
/// std::runtime_error with the compiler's log.
std::string compile_kernels(const Nvrtc& nvrtc, const std::string& architecture);

/// The text's machine code for the architecture: embedded in the program where NVRTC was there when it was built, else
/// compiled once a process. Throws MissingError where there is neither, std::runtime_error with the compiler's log.
const std::string& kernel_code(const Nvrtc& nvrtc, const std::string& architecture);

/// The architectures whose code is embedded.
std::vector<std::string> embedded_architectures();

/// Makes the GPU the current one and loads its kernels: a library. Throws as kernel_code(), and CudaError.
Owned load_kernels(const Tables& tables, int gpu);

}  // namespace trainyard::cuda
