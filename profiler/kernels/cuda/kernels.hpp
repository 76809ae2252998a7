#pragma once

#include <span>
#include <string>
#include <vector>

#include "profiler/run/cuda/owned.hpp"

namespace trainyard::cuda {

/// The kernels that no vendor library has, as one CUDA C++ text: element-wise ops and their gradients, softmax and
/// layer normalization by row, embedding, dropout, transposition, optimizer updates, and kernels for measurements (a
/// delay, a sweep of the L2 cache). They work on float or bfloat16, and are `extern "C"`.
const char* kernel_source();
/// Their names.
std::span<const char* const> kernel_names();

/// Compiles the text for one architecture ("sm_90") without a GPU. Returns machine code for cuLibraryLoadData. Throws
/// std::runtime_error with the compiler's log.
std::string compile_kernels(const Nvrtc& nvrtc, const std::string& architecture);

/// Machine code of the text for the architecture: embedded if the build had NVRTC, else compiled once per process.
/// Throws MissingError without either, and std::runtime_error with the compiler's log.
const std::string& kernel_code(const Nvrtc& nvrtc, const std::string& architecture);

/// The architectures with embedded code.
std::vector<std::string> embedded_architectures();

/// Makes the GPU current and loads its kernels as a library. Throws as kernel_code(), and CudaError.
Owned load_kernels(const Tables& tables, int gpu);

}  // namespace trainyard::cuda
