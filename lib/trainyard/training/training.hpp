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
  fine,  // the gradients of data, weights and bias apart
};

struct TrainingOptions {
  Optimizer optimizer = Optimizer::sgd;  // the program's and Python's default is adam
  Granularity granularity = Granularity::op;
  std::int64_t dropout_mask_bytes = 1;  // per element: 1 on CUDA, 4 on PyTorch's CPU path
  std::int64_t pool_index_bytes = 8;    // per output element of a max pool
  bool colocate_gradients = false;      // every backward op in the group of its forward op
  /// Slices of one tensor (the steps of a sequence): each makes a zeroed gradient of the whole tensor, added up one by
  /// one, as eager PyTorch does; otherwise one op gathers them.
  bool eager_slices = false;
  bool loss_scaling = false;  // gradients of short parameters are unscaled, and checked for infinities, in the update
};

/// Totals of the expansion. FLOPs of "matmul" are those of convolutions and matrix products, without bias.
struct TrainingSummary {
  Flops forward_flops, backward_flops, update_flops;
  Flops forward_matmul_flops, backward_matmul_flops;
  Bytes saved_bytes;  // of the tensors that forward ops make and backward ops hold; inputs and parameters are not
  std::int64_t gradient_adds = 0;
  std::int64_t parameters = 0;  // trained scalars
  Bytes parameter_bytes, state_bytes;
  std::size_t input_ops = 0, forward_ops = 0, backward_ops = 0, update_ops = 0;

  friend bool operator==(const TrainingSummary&, const TrainingSummary&) = default;
};

struct TrainingStep {
  Graph graph;
  TrainingSummary summary;
  TrainingRecipe recipe;  // what each op computes
};

/// One training step as a graph: forward, loss, backward, update. Shapes must be known: infer_shapes() fills them
/// in for a network made by hand.
///
/// Loss: softmax cross-entropy on the first output (its last dimension counts classes; of images, dimension 1), with
/// int64 labels; a first output of one element is taken for a loss itself.
///
/// Ops are named after nodes: NODE, NODE/grad (fine: NODE/grad_x, NODE/grad_w, NODE/grad_b), VALUE/add_grad where
/// gradients of several consumers meet, PARAMETER/update. Each model input, and the labels, is an op of type "Input"
/// that takes no time. Views are not ops: their consumers read, hold and transfer the whole storage, as eager PyTorch
/// keeps it alive. Only a tensor that is read through slices alone, which make it up (the gates of an LSTM cell, packed
/// queries, keys and values, the gradient of a Concat), is declared as these slices, each with its own bytes.
///
/// Parameters are not tensors: the first op that reads one holds it with its optimizer state, and every op that touches
/// it (reads it, makes, adds or applies its gradient) is in one colocation group, named after the group's first
/// parameter. Buffers count as state of the first op that reads them. Constants are free.
///
/// Throws InputError: "unknown-shape"; "too-large"; "no-output"; "nothing-to-train" where the loss reaches no
/// parameter. And for a network that no reader would leave: "unknown-value" and "order" (nodes read what nodes before
/// them make), "two-producers", "range", "unknown-operator" (a type that is neither known nor of a domain, as in
/// "my::Fused"), "shape-mismatch", "attribute".
TrainingStep training_step(const Model& model, const TrainingOptions& options = {});

/// The graph of training_step() alone.
inline Graph training_graph(const Model& model, const TrainingOptions& options = {}) {
  return training_step(model, options).graph;
}

}  // namespace trainyard
