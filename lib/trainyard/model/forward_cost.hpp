#pragma once

#include "trainyard/core/quantity.hpp"
#include "trainyard/model/model.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard {

/// Cost of one run of a forward node.
///
///     FLOPs:  a multiply-add counts 2; Conv 2 n(Y) (Cin/g) kh kw, matrix products 2 n(Y) K, plus n(Y) for a bias;
///             Einsum 2 for each combination of its letters;
///             Attention 2 (d_qk + d_v) + 5 for the softmax for each query and key of each head, half of them with a
///             causal mask, which its kernels skip; ExpertCombine 2 a choice, ExpertDispatch none;
///             element-wise and normalizing ops a small constant per element (1 Relu, 4 Sigmoid, 5 Tanh and Softmax,
///             8 normalization, 10 Gelu): conventions, far below 1 % of a network's total
///     bytes:  every tensor read or written once; twice what a batch normalization reads; of a table only the rows that
///             a Gather takes; the weights of a recurrent op once per time step
struct ForwardCost {
  Flops flops;
  Flops matmul_flops;  // the part in convolutions and matrix products, without bias
  Bytes bytes;

  friend bool operator==(const ForwardCost&, const ForwardCost&) = default;
};

/// Views cost nothing. A node of a type that is not known counts 1 FLOP per output element. A Dropout writes
/// `mask_bytes` per element for its mask. Throws InputError ("unknown-shape", "too-large").
ForwardCost forward_cost(const Model& model, const Node& node, std::int64_t mask_bytes = 1);

/// Sizes of a recurrent op (LSTM, GRU, RNN), from the shapes of X and R.
struct RecurrentShape {
  double directions, steps, batch, inputs, hidden;
  double gates;  // 4 LSTM, 3 GRU, 1 RNN

  /// Multiply-adds of X W and h R over the sequence, as FLOPs.
  double matmul_flops() const { return input_flops() + hidden_flops(); }
  double input_flops() const { return 2 * gates * cells() * inputs; }
  double hidden_flops() const { return 2 * gates * cells() * hidden; }
  /// Hidden states computed: directions x steps x batch x hidden.
  double cells() const { return directions * steps * batch * hidden; }
};
RecurrentShape recurrent_shape(const Model& model, const Node& node);

/// Sizes of an Attention, from the shapes of Q, K and V.
struct AttentionShape {
  double heads;
  double rows;              // queries, of all samples and heads
  double size, value_size;  // of a head: d_qk of queries and keys, d_v of values
  double pairs = 0;         // scores computed: rows x keys, half of them with a causal mask
};
AttentionShape attention_shape(const Model& model, const Node& node);

}  // namespace trainyard
