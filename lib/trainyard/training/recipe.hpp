#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "trainyard/core/id.hpp"
#include "trainyard/core/id_map.hpp"
#include "trainyard/model/model.hpp"
#include "trainyard/training/optimizer.hpp"

namespace trainyard {

/// A step from one array to another that shares its memory.
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

/// How a dimension of an array is divided into equal parts. It consists of blocks, one after the other, each of which
/// is divided alike: of packed queries, keys and values, which are three blocks, a part has a share of each.
struct Cut {
  std::size_t dimension = 0;
  std::vector<std::int64_t> blocks = {};  // extents within one part

  friend bool operator==(const Cut&, const Cut&) = default;
};

/// Part `index` of `of`; without a cut of the elements end to end, in parts that differ by one at most (the first ones
/// are the smaller).
struct Part {
  std::optional<Cut> cut = {};
  std::size_t index = 0, of = 1;

  friend bool operator==(const Part&, const Part&) = default;
};

/// An array that an op reads, or writes in part: a tensor of the graph, or what no op makes (a parameter, a buffer, a
/// constant), seen through views; of that, one part after the other of what is left.
struct Operand {
  TensorId tensor = TensorId::none();
  ValueId held = ValueId::none();
  std::vector<ViewStep> views = {};
  std::vector<Part> parts = {};
  std::size_t offset = 0;  // with a tensor and a value held: the tensor has the latter's elements from here on
  bool updated = false;    // of a parameter: as the update of this step leaves it

  bool is_none() const { return tensor.is_none() && held.is_none(); }
};

/// Elements from `from` on of an array, which are those from `to` on of another.
struct Range {
  std::size_t from = 0, to = 0, count = 0;
};

/// Random numbers for part of an array: those that the node draws for these elements of the whole one.
struct Drawn {
  NodeId node;
  ValueId of;
  std::vector<Part> parts;
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
    // What rewrites add:
    sum,   // of all reads, which are of one shape
    join,  // the reads as parts of one array by `joined`; the results are the parts of that by `cut`
    rest,  // nothing: other ops do what this one stands for
  };
  /// Destination of an array that the op makes: one tensor, or several that are parts of it.
  struct Result {
    std::size_t position = 0;  // forward: of the output; backward: of the input whose gradient it is; else 0
    std::vector<Operand> parts;
    ValueId like = ValueId::none();  // sum, join: the value whose shape it has; none: as the reads have it
  };
  /// What the op's first result has of a parameter's values after the step.
  struct Store {
    ValueId parameter;
    Range range;
  };

  Kind kind = Kind::input;
  NodeId node = NodeId::none();
  ValueId value = ValueId::none();
  std::vector<Operand> reads;               // forward: inputs; otherwise as `kind` says
  std::vector<Operand> gradients, outputs;  // backward
  std::vector<NodeId> slices;               // slice_gradient: the view of each read
  std::vector<TensorId> extras;             // forward: written for the backward op; backward: read
  std::vector<Result> results;
  std::optional<Cut> joined, cut;  // join; without them end to end
  std::size_t first = 0, of = 0;  // join: the results are the parts from `first` on of `of`; 0: of as many as there are
  bool apart = false;             // join: the parts are of samples of their own, those of other ranks
  std::optional<Range> range;     // update: of the parameter's elements, from those of the gradient
  std::vector<Store> stores;      // sum, join
  std::shared_ptr<const Drawn> drawn;  // forward, at random: for part of an array
  std::optional<double> loss_share;    // forward: what it makes counts as so much of the loss
  double seed = 1;                     // backward, where gradients start: the gradient of its output
};

/// A value that is part of another, or a copy of it: its first numbers are those of the part.
struct HeldCopy {
  ValueId copy, of;
  std::vector<Part> parts = {};
  std::optional<std::pair<std::size_t, std::size_t>> valid =
      {};  // its elements from, to: those that are kept up to date
};

/// Computations of all ops of a training graph, for backends that execute it.
struct TrainingRecipe {
  Model model;  // with the loss appended
  ValueId loss = ValueId::none();
  Optimizer optimizer = Optimizer::none;
  IdMap<OpId, OpRecipe> ops;
  bool own_statistics = false;        // shares of a batch are normalized each on its own
  std::vector<HeldCopy> copies = {};  // of inputs, parameters and buffers, where ops use these in their place
};

}  // namespace trainyard
