#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/model/model.hpp"
#include "trainyard/training/optimizer.hpp"

namespace trainyard {

/// From one array to another that shares its memory.
struct ViewStep {
  enum class Kind : std::uint8_t {
    output,  // output `index` of the view `node`, from its input 0
    undo,    // the gradient of the input 0 of `node`, an alias, from that of its output
    part,    // the gradient of input `index` of the Concat `node`, from that of its output
  };
  Kind kind;
  NodeId node;
  std::size_t index = 0;

  friend bool operator==(const ViewStep&, const ViewStep&) = default;
};

/// An array that an op reads, or writes in part: a tensor of the graph, or what no op makes (a parameter, a buffer, a
/// constant), seen through views.
struct Operand {
  TensorId tensor = TensorId::none();
  ValueId held = ValueId::none();
  std::vector<ViewStep> views = {};

  bool is_none() const { return tensor.is_none() && held.is_none(); }
};

/// Computation of one op of a training graph, in terms of the model.
struct OpRecipe {
  enum class Kind : std::uint8_t {
    input,          // the model input `value`
    forward,        // `node`: reads by input position
    backward,       // of `node`: `gradients` by output position, `inputs` and `outputs` by position where it reads them
    add_gradients,  // of `value`: the sum of two reads
    slice_gradient,  // of `value`: each read goes where its slice, a view of one step, was taken; the rest is 0
    view_gradient,   // of input 0 of `node`, a Split or an Expand: reads are the gradients of its outputs, by position
    update,          // of the parameter `value` by the gradient that is the only read
    relay,           // what the op makes is what it reads, byte for byte (rewrite/rewritten_recipe.hpp)
  };
  /// Destination of an array that the op makes: one tensor, or several that are parts of it.
  struct Result {
    std::size_t position = 0;  // forward: of the output; backward: of the input whose gradient it is; else 0
    std::vector<Operand> parts;
  };

  Kind kind = Kind::input;
  NodeId node = NodeId::none();
  ValueId value = ValueId::none();
  std::vector<Operand> reads;               // forward: inputs; otherwise as `kind` says
  std::vector<Operand> gradients, outputs;  // backward
  std::vector<NodeId> slices;               // slice_gradient: the view of each read
  std::vector<TensorId> extras;             // forward: written for the backward op; backward: read
  std::vector<Result> results;
};

/// Computations of all ops of a training graph, for backends that execute it.
struct TrainingRecipe {
  Model model;  // with the loss appended
  ValueId loss = ValueId::none();
  Optimizer optimizer = Optimizer::none;
  IdMap<OpId, OpRecipe> ops;
};

}  // namespace trainyard
