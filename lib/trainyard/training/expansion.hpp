#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/model/model.hpp"
#include "trainyard/model/op_kind.hpp"
#include "trainyard/training/backward_rules.hpp"
#include "trainyard/training/draft_graph.hpp"
#include "trainyard/training/recipe.hpp"
#include "trainyard/training/training.hpp"

namespace trainyard::detail {

/// One run of training_step: a sweep forward over the nodes, and one back.
class Expansion {
 public:
  Expansion(const Model& model, const TrainingOptions& options) : model_(model), options_(options) {}

  TrainingStep run();

 private:
  using Tensor = DraftGraph::Index;
  static constexpr Tensor kNone = DraftGraph::kNone;

  /// Something that is a (part of a) draft tensor, seen through views.
  struct Seen {
    Tensor tensor = kNone;
    std::vector<ViewStep> views = {};
  };
  struct SlicePart {
    NodeId node;
    ValueId slice;
    Seen gradient;
  };

  const Value& value(ValueId id) const { return model_.values[id]; }
  static const std::string& name_of_op(const Node& node) { return node.name.empty() ? node.type : node.name; }

  // --- forward (expand_forward.cpp) ---

  /// Appends softmax cross-entropy to the first output, unless that is a loss already, and finds where gradients start.
  void add_loss_node();
  std::string free_name(std::string name) const;
  /// Finds the node that makes each value, those that read it, and the first of these.
  void index_values();
  /// Marks the values that need a gradient and the nodes that pass one on.
  void find_differentiated();
  bool reads_differentiated(const Node& node) const;
  void add_inputs();
  void add_forward(NodeId id);
  void add_view(NodeId id, ViewKind kind);
  /// The first op that reads a parameter or a buffer holds it; all that read a parameter are in its group.
  void hold_parameters(DraftGraph::Index op, const Node& node);
  /// The op reads the value or makes its gradient: where that is (a view of) a parameter, it joins its group.
  void touch(DraftGraph::Index op, ValueId of);
  std::string signature(const std::string& type, const std::vector<ValueId>& reads,
                        const std::vector<ValueId>& writes) const;

  // --- backward (expand_backward.cpp) ---

  DraftGraph::Index add_backward_op(std::string name, const std::string& type, std::string layer, double flops,
                                    std::int64_t bytes, std::string signature_text, const std::vector<Tensor>& inputs);
  /// Adds one more part of the value's gradient.
  void contribute(ValueId id, Seen part);
  /// The layer of the node that makes the value, or of the first that reads the parameter.
  const std::string& layer_of(ValueId id) const;
  /// Colocates the backward op with the op that made the value's storage (colocate_gradients only).
  void follow(DraftGraph::Index backward, ValueId of);
  /// The whole gradient of a value whose consumers have all been seen; kNone where it has none.
  Seen finished_gradient(ValueId id);
  /// Zeroes a gradient of the whole and writes the parts into it.
  Tensor add_slice_gradient(ValueId whole, const std::vector<SlicePart>& parts);
  void add_backward(NodeId id);
  void add_view_gradient(NodeId id, ViewKind kind, const std::vector<Seen>& gradients, const std::vector<ValueId>& of);
  void add_concat_gradient(NodeId id, const Seen& gradient);
  void add_rule(NodeId id, const std::vector<Seen>& gradients, const std::vector<ValueId>& of);
  void add_piece(NodeId id, const BackwardRule& rule, const GradientPiece& piece, const std::vector<Seen>& gradients,
                 const std::vector<ValueId>& of, const std::vector<Tensor>& extras);
  void add_updates();

  // --- what ops compute (expand_recipe.cpp); tensors in it are draft tensors until finish_recipe() ---

  OpRecipe& recipe(DraftGraph::Index op, OpRecipe::Kind kind);
  Operand operand(const Seen& seen) const;
  /// The value as ops read it.
  Operand operand(ValueId id) const;
  static std::vector<Tensor> tensors(const std::vector<Seen>& seen);
  /// The gradients of the node's outputs `of`, at the positions of these.
  std::vector<Operand> by_output(const Node& node, const std::vector<Seen>& gradients,
                                 const std::vector<ValueId>& of) const;
  static OpRecipe::Result result(Tensor tensor, std::size_t position = 0);
  /// A draft tensor that is part of another: how it comes from the whole.
  void note_slice(Tensor slice, Tensor of, std::vector<ViewStep> views);
  TrainingRecipe finish_recipe(const Graph& graph, const std::vector<TensorId>& declared);

  Model model_;  // with the loss appended
  const TrainingOptions& options_;
  const bool trains_ = options_.optimizer != Optimizer::none;
  NodeId seed_ = NodeId::none();  // where gradients start
  DraftGraph draft_;
  TrainingSummary summary_;
  IdMap<ValueId, ValueId> roots_;
  IdMap<ValueId, NodeId> producer_, first_reader_;
  IdMap<ValueId, Tensor> tensor_;  // what consumers of the value read; none for parameters, buffers and constants
  IdMap<ValueId, std::vector<ViewStep>> views_;     // from the tensor, or the held array, to the value
  IdMap<ValueId, Seen> gradient_;                   // the sum of what has been contributed
  IdMap<ValueId, std::vector<SlicePart>> pending_;  // gradients of slices, not yet put together
  IdMap<ValueId, DraftGraph::Index> maker_;         // the op that makes the value
  IdMap<ValueId, bool> needs_gradient_, held_, read_;
  IdMap<NodeId, bool> on_tape_;
  IdMap<NodeId, DraftGraph::Index> op_;
  std::vector<OpRecipe> recipes_;                   // by op
  std::vector<std::vector<ViewStep>> slice_views_;  // by draft tensor: from its whole; empty beyond the last slice
};

}  // namespace trainyard::detail
