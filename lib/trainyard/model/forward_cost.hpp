#pragma once

#include "trainyard/core/quantity.hpp"
#include "trainyard/model/model.hpp"

namespace trainyard {

/// Cost of one run of a forward node.
///
///     FLOPs:  a multiply-add counts 2; Conv 2 n(Y) (Cin/g) kh kw, matrix products 2 n(Y) K, plus n(Y) for a bias;
///             Einsum 2 for each combination of its letters;
///             Attention 2 (d_qk + d_v) + 5 (softmax) for each query-key pair of each head; with a causal mask half of
///             the pairs, as kernels skip the others; ExpertCombine 2 per choice, ExpertDispatch none;
///             element-wise and normalizing ops a small constant per element (1 Relu, 4 Sigmoid, 5 Tanh and Softmax,
///             8 normalization, 10 Gelu): conventions, far below 1 % of a network's total
///     bytes:  every tensor read or written once; a batch normalization reads its input twice; a Gather reads only the
///             rows of the table that it takes; a recurrent op reads its weights once per time step
///
/// n(Y) is the number of elements of the output Y, K the inner dimension, Cin the input channels, g the groups, kh kw
/// the kernel, d_qk and d_v the sizes of a head.
struct ForwardCost {
  Flops flops;
  Flops matmul_flops;  // FLOPs of convolutions and matrix products, without bias
  Bytes bytes;

  friend bool operator==(const ForwardCost&, const ForwardCost&) = default;
};

/// Cost of one node. Views cost nothing. A node of an unknown type counts 1 FLOP per output element. A Dropout writes a
/// mask of `mask_bytes` per element. Throws InputError ("unknown-shape", "too-large").
ForwardCost forward_cost(const Model& model, const Node& node, std::int64_t mask_bytes = 1);

/// Sizes of a recurrent op (LSTM, GRU, RNN), from the shapes of X and R.
struct RecurrentShape {
  double directions, steps, batch, inputs, hidden;
  double gates;  // 4 LSTM, 3 GRU, 1 RNN

  /// FLOPs of X W and h R over the whole sequence, 2 per multiply-add.
  double matmul_flops() const { return input_flops() + hidden_flops(); }
  double input_flops() const { return 2 * gates * cells() * inputs; }
  double hidden_flops() const { return 2 * gates * cells() * hidden; }
  /// Number of hidden states computed: directions x steps x batch x hidden.
  double cells() const { return directions * steps * batch * hidden; }
};
RecurrentShape recurrent_shape(const Model& model, const Node& node);

/// Sizes of an Attention, from the shapes of Q, K and V.
struct AttentionShape {
  double heads;
  double rows;              // queries of all samples and heads
  double size, value_size;  // per head: d_qk of queries and keys, d_v of values
  double pairs = 0;         // scores computed: rows x keys, half of that with a causal mask
};
AttentionShape attention_shape(const Model& model, const Node& node);

}  // namespace trainyard
