#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Sizes of what the forward op leaves behind for its gradient, where frameworks differ.
struct SavedSizes {
  std::int64_t dropout_mask = 1;  // bytes per element: 1 on CUDA (bool), 4 on PyTorch's CPU path
  std::int64_t pool_index = 8;    // bytes per element of a max pool's output (int64)
};

/// A tensor that the forward op computes besides its outputs, for the backward op alone.
struct SavedExtra {
  std::string suffix;  // "mask", "stats", "indices", "gates"
  std::int64_t bytes;
  bool statistics = false;  // as of a tensor (Graph::statistics)
};

/// One kernel of a node's backward pass. It always reads the gradient of every output.
struct GradientPiece {
  std::string type;    // "ConvGradX"
  std::string suffix;  // "grad_x": names the op where pieces stand apart
  double flops = 0;
  double matmul_flops = 0;
  std::vector<ValueId> reads = {};          // inputs and outputs of the node
  std::vector<ValueId> holds = {};          // kept alive for this op though it does not read them (eager PyTorch)
  std::vector<std::size_t> extras = {};     // of the rule, read
  std::vector<std::size_t> gradients = {};  // positions of the inputs whose gradient it writes
  std::int64_t more_bytes = 0;              // traffic beyond one read or write of each tensor
};

/// Kernels and gradients that differentiating one node adds to the graph.
struct BackwardRule {
  std::string type;  // of the backward op where all pieces are one
  std::vector<SavedExtra> extras = {};
  std::vector<GradientPiece> pieces = {};
  std::vector<std::size_t> aliases = {};  // positions of the inputs whose gradient is that of output 0 itself
};

/// The rule for a node that is not a view, not a Split, a Slice or a Concat: those only rearrange gradients. `wanted`
/// says by input position which gradients are needed. Only what these need is saved: the input of a product for the
/// gradient of its weight, the weight for the gradient of its input.
///
///     product Y = A B:  dA = dY B^T, dB = A^T dY: the FLOPs of the forward product each
///     Relu, Sigmoid, Tanh, Softmax, Exp, Sqrt: from Y; other element-wise ops: from X
///     operand that was broadcast: its gradient is summed over the broadcast dimensions, n(Y) more
///
/// A type that is not known reads its inputs and takes 2 n(Y).
BackwardRule backward_rule(const Model& model, const Node& node, const std::vector<bool>& wanted,
                           const SavedSizes& sizes);

/// True if gradients pass through an op of this type: not through comparisons, rounding, shapes and indices.
bool is_differentiable(const std::string& type);

}  // namespace trainyard
