#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Sizes of tensors that a forward op saves for its gradient, where frameworks differ.
struct SavedSizes {
  std::int64_t dropout_mask = 1;  // bytes per element: 1 on CUDA (bool), 4 on PyTorch's CPU path
  std::int64_t pool_index = 8;    // bytes per element of a max pool's output (int64)
};

/// A tensor that the forward op computes in addition to its outputs, only for the backward op.
struct SavedExtra {
  std::string suffix;  // "mask", "stats", "indices", "gates"
  std::int64_t bytes;
  bool statistics = false;  // as Graph::statistics of the tensor
};

/// One kernel of a node's backward pass. It always reads the gradients of all outputs.
struct GradientPiece {
  std::string type;    // "ConvGradX"
  std::string suffix;  // "grad_x": part of the op's name when pieces are separate ops
  double flops = 0;
  double matmul_flops = 0;
  std::vector<ValueId> reads = {};          // inputs and outputs of the node
  std::vector<ValueId> holds = {};          // kept alive for this op although it does not read them (eager PyTorch)
  std::vector<std::size_t> extras = {};     // indices of the rule's extras that it reads
  std::vector<std::size_t> gradients = {};  // positions of the inputs whose gradients it writes
  std::int64_t more_bytes = 0;              // traffic beyond one read or write of each tensor
};

/// The kernels and gradients that differentiating one node adds to the graph.
struct BackwardRule {
  std::string type;  // of the backward op when all pieces are merged into one
  std::vector<SavedExtra> extras = {};
  std::vector<GradientPiece> pieces = {};
  std::vector<std::size_t> aliases = {};  // positions of the inputs whose gradient is that of output 0, unchanged
};

/// The backward rule of a node that is not a view, Split, Slice or Concat (these only rearrange gradients). `wanted`
/// says by input position which gradients are needed. Only what they need is saved: the input of a product for the
/// gradient of its weight, and the weight for the gradient of its input.
///
///     product Y = A B: dA = dY B^T and dB = A^T dY, each with the FLOPs of the forward product
///     Relu, Sigmoid, Tanh, Softmax, Exp, Sqrt: read Y; other element-wise ops: read X
///     broadcast operand: its gradient is summed over the broadcast dimensions, n(Y) more FLOPs
///
/// n(Y) is the number of elements of Y. The backward op of an unknown type reads its inputs and takes 2 n(Y) FLOPs.
BackwardRule backward_rule(const Model& model, const Node& node, const std::vector<bool>& wanted,
                           const SavedSizes& sizes);

/// True if gradients pass through an op of this type. They do not pass through comparisons, rounding, shapes and
/// indices.
bool is_differentiable(const std::string& type);

}  // namespace trainyard
