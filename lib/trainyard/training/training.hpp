#pragma once

#include <cstddef>
#include <cstdint>

#include "trainyard/core/quantity.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/model/model.hpp"
#include "trainyard/training/optimizer.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard {

enum class Granularity : std::uint8_t {
  op,    // one backward op per forward op
  fine,  // separate ops for the gradients of data, weights and bias
};

struct TrainingOptions {
  Optimizer optimizer = Optimizer::sgd;  // the program's and Python's default is adam
  Granularity granularity = Granularity::op;
  std::int64_t dropout_mask_bytes = 1;  // per element: 1 on CUDA, 4 on PyTorch's CPU path
  std::int64_t pool_index_bytes = 8;    // per output element of a max pool
  bool colocate_gradients = false;      // every backward op in the group of its forward op
  /// How gradients of slices of one tensor (the steps of a sequence) are combined. True, as in eager PyTorch: each
  /// slice makes a zeroed gradient of the whole tensor, and these are added one by one. False: one op gathers all
  /// slices.
  bool eager_slices = false;
  /// The update unscales gradients of short (2-byte) parameters and checks them for infinities.
  bool loss_scaling = false;
  /// Limit on the norm of all gradients together, to which larger ones are scaled down before the updates; 0: none.
  double clip_norm = 0;
};

/// Totals of a training step. Fields with `matmul` count FLOPs of convolutions and matrix products, without bias.
struct TrainingSummary {
  Flops forward_flops, backward_flops, update_flops;
  Flops forward_matmul_flops, backward_matmul_flops;
  /// Tensors that forward ops make and backward ops hold, without inputs and parameters.
  Bytes saved_bytes;
  std::int64_t gradient_adds = 0;
  std::int64_t parameters = 0;  // trained scalars
  Bytes parameter_bytes, state_bytes;
  std::size_t input_ops = 0, forward_ops = 0, backward_ops = 0, update_ops = 0;

  friend bool operator==(const TrainingSummary&, const TrainingSummary&) = default;
};

struct TrainingStep {
  Graph graph;
  TrainingSummary summary;
  TrainingRecipe recipe;  // the computation of each op
};

/// One training step as a graph: forward, loss, backward, update. Shapes must be known; infer_shapes() fills them in
/// for a network built by hand.
///
/// The loss is softmax cross-entropy on the first output, with int64 labels. Classes are its last dimension, or
/// dimension 1 if it has four (images). A first output of one element is taken as the loss itself.
///
/// Ops are named after nodes: NODE, NODE/grad (fine: NODE/grad_x, NODE/grad_w, NODE/grad_b), VALUE/add_grad where
/// gradients of several consumers are added, PARAMETER/update. Each model input, and the labels, is an op of type
/// "Input" that takes no time. Views are not ops: their consumers read, hold and transfer the whole storage, as eager
/// PyTorch keeps it alive. The exception is a tensor that is read only through slices which together make it up (the
/// gates of an LSTM cell, packed queries, keys and values, the gradient of a Concat). It is declared as these slices,
/// each with its own bytes.
///
/// Clipping (P elements of `e` bytes each per parameter):
///
///     PARAMETER/squares    SquareSum    sum of the squares of a gradient: 2 P FLOPs, reads e P bytes
///     gradients/squares    AddSquares   sum over all parameters
///     gradients/clip       ClipScale    the scale, at most 1
///     PARAMETER/update                  also scales the gradient: P FLOPs, 2 e P bytes
///
/// Parameters are not tensors. The first op that reads a parameter holds it with its optimizer state. All ops that
/// touch it (read it; make, add or apply its gradient) form one colocation group, named after the group's first
/// parameter. Buffers count as state of the first op that reads them. Constants cost nothing.
///
/// Throws InputError: "unknown-shape"; "too-large"; "no-output"; "nothing-to-train" if the loss depends on no
/// parameter. For a network that no reader would produce it also throws (check_model()): "unknown-value" and "order" (a
/// node reads a value that no earlier node makes), "two-producers", "range", "unknown-operator" (a type that is neither
/// known nor has a domain, as in "my::Fused"), "shape-mismatch", "attribute".
TrainingStep training_step(const Model& model, const TrainingOptions& options = {});

/// Only the graph of training_step().
inline Graph training_graph(const Model& model, const TrainingOptions& options = {}) {
  return training_step(model, options).graph;
}

}  // namespace trainyard
