#pragma once

#include <cmath>
#include <span>

#include "profiler/kernels/cpu/arrays.hpp"

namespace trainyard::cpu {

// One table per family of operators.
std::span<const OpKernels> unary_kernels();
std::span<const OpKernels> operand_kernels();  // several operands, with broadcasting
std::span<const OpKernels> product_kernels();  // matrix products
std::span<const OpKernels> window_kernels();   // convolutions
std::span<const OpKernels> pool_kernels();
std::span<const OpKernels> normalization_kernels();
std::span<const OpKernels> row_kernels();  // softmax and losses
std::span<const OpKernels> layout_kernels();
std::span<const OpKernels> indexing_kernels();
std::span<const OpKernels> reduction_kernels();
std::span<const OpKernels> recurrent_kernels();
std::span<const OpKernels> source_kernels();
std::span<const OpKernels> gated_kernels();  // GRU, RNN
std::span<const OpKernels> einsum_kernels();
std::span<const OpKernels> resize_kernels();
std::span<const OpKernels> attention_kernels();
std::span<const OpKernels> expert_kernels();
std::span<const OpKernels> divided_kernels();  // operators divided among ranks
std::span<const OpKernels> norm_kernels();     // and rare operators

/// Used by gates and activations.
inline float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

}  // namespace trainyard::cpu
