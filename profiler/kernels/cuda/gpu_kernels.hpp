#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "profiler/kernels/cuda/gpu.hpp"

namespace trainyard::cuda {

using GpuKernel = void (*)(OpArrays&, Gpu&);

/// Kernels of one operator on a GPU: like cpu::OpKernels, on arrays in the GPU's memory.
struct GpuOp {
  std::string_view type;
  GpuKernel forward = nullptr, backward = nullptr;
};

/// Null if the operator has no kernels.
const GpuOp* find_gpu_op(std::string_view type);

/// A whole number as a kernel argument.
inline std::uint64_t whole(std::int64_t x) { return static_cast<std::uint64_t>(x); }

// One table per family.
std::span<const GpuOp> elementwise_gpu_ops();
std::span<const GpuOp> product_gpu_ops();  // products, convolutions, pools, LSTM
std::span<const GpuOp> row_gpu_ops();      // softmax, losses, normalization, reductions, lookups
std::span<const GpuOp> expert_gpu_ops();   // top-k, and dispatch of tokens to experts and back

}  // namespace trainyard::cuda
