#pragma once

#include <span>
#include <string>
#include <vector>

#include "profiler/cuda/api.hpp"

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

}  // namespace trainyard::cuda
