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

/// One view operation: from an array to another that shares its memory.
struct ViewStep {
  enum class Kind : std::uint8_t {
    output,  // output `index` of the view `node`, from its input 0
    undo,    // the gradient of input 0 of the alias `node`, from that of its output
    part,    // the gradient of input `index` of the Concat `node`, from that of its output
  };
  Kind kind;
  NodeId node;
  std::size_t index = 0;

  friend bool operator==(const ViewStep&, const ViewStep&) = default;
};

/// How a dimension of an array is divided into equal parts. The dimension consists of consecutive blocks, and each part
/// has an equal share of every block. Packed queries, keys and values are three blocks.
struct Cut {
  std::size_t dimension = 0;
  std::vector<std::int64_t> blocks = {};  // extents of the blocks within one part

  friend bool operator==(const Cut&, const Cut&) = default;
};

/// Part `index` of `of` parts. Without a cut, the elements in row-major order are divided; the sizes of parts differ by
/// at most one, and the first parts are the smaller ones.
struct Part {
  std::optional<Cut> cut = {};
  std::size_t index = 0, of = 1;

  friend bool operator==(const Part&, const Part&) = default;
};

/// An array that an op reads, or into part of which it writes: a tensor of the graph, or an array that no op makes (a
/// parameter, a buffer, a constant). It is seen through `views`; `parts` then select a part, each from what the one
/// before leaves.
struct Operand {
  TensorId tensor = TensorId::none();
  ValueId held = ValueId::none();
  std::vector<ViewStep> views = {};
  std::vector<Part> parts = {};
  std::size_t offset = 0;  // with both tensor and held: the tensor has the elements of the held array from here on
  bool updated = false;    // of a parameter: its values after the update of this step

  bool is_none() const { return tensor.is_none() && held.is_none(); }
};

/// `count` elements of an array from `from` on, which are the elements of another array from `to` on.
struct Range {
  std::size_t from = 0, to = 0, count = 0;
};

/// Random numbers for part of an array: the numbers that the node draws for these elements of the whole array.
struct Drawn {
  NodeId node;
  ValueId of;
  std::vector<Part> parts;
};

/// The computation of one op of a training graph, in terms of the model.
struct OpRecipe {
  enum class Kind : std::uint8_t {
    input,           // the model input `value`
    forward,         // `node`: reads by input position
    backward,        // of `node`: `gradients` by output position; `reads` and `outputs` by position, if it reads them
    add_gradients,   // of `value`: the sum of two reads; of one, on ranks that have no other term
    slice_gradient,  // of `value`: writes each read where its slice, a view of one step, was taken; the rest is 0
    view_gradient,   // of input 0 of `node`, a Split or an Expand: reads are its outputs' gradients, by position
    update,          // of the parameter `value` by the gradient, times the scale if there is a second read
    relay,           // the op makes what it reads, byte for byte (rewrite/rewritten_recipe.hpp)
    // Added by rewrites:
    sum,   // of all reads, which have one shape
    join,  // reads are parts of one array by `joined`; results are parts of that array by `cut`
    rest,  // nothing: other ops compute what this one stands for
    // For clipping:
    squares,  // the sum of the squares of the gradient of the parameter `value`, its only read
    clip,     // the scale that limits the norm of which it reads the square
  };
  /// Destination of an array that the op makes: one tensor, or several that are parts of it.
  struct Result {
    std::size_t position = 0;  // forward: of the output; backward: of the input whose gradient it is; otherwise 0
    std::vector<Operand> parts;
    /// Sum, join, squares, clip: the value with its shape; none: the shape of the reads.
    ValueId like = ValueId::none();
  };
  /// Range of a parameter's values after the step that the op's first result has.
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
  std::optional<Cut> joined, cut;      // join; none: parts end to end
  std::size_t first = 0, of = 0;       // join: results are the parts from `first` on of `of`; 0: of as many as results
  bool apart = false;                  // join: the parts belong to different samples, those of other ranks
  std::optional<Range> range;          // update, squares: range of the parameter's elements, from those of the gradient
  std::vector<Store> stores;           // sum, join
  std::shared_ptr<const Drawn> drawn;  // forward op that draws random numbers for part of an array
  std::optional<double> loss_share;    // forward: weight of its result in the loss
  double seed = 1;                     // backward, at the loss: gradient of its output
};

/// A value that is a part or a copy of another. Its first elements are those of the part.
struct HeldCopy {
  ValueId copy, of;
  std::vector<Part> parts = {};
  std::optional<std::pair<std::size_t, std::size_t>> valid = {};  // range of its elements that are kept up to date
};

/// The computations of all ops of a training graph, for backends that execute it.
struct TrainingRecipe {
  Model model;  // with the loss appended
  ValueId loss = ValueId::none();
  Optimizer optimizer = Optimizer::none;
  IdMap<OpId, OpRecipe> ops;
  double clip_norm = 0;               // TrainingOptions::clip_norm
  bool own_statistics = false;        // each share of a batch is normalized by its own statistics
  std::vector<HeldCopy> copies = {};  // of inputs, parameters and buffers; ops use these in place of the originals
};

}  // namespace trainyard
