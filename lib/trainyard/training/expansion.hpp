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

/// One run of training_step(): a forward sweep over the nodes, then a backward sweep.
class Expansion {
 public:
  Expansion(const Model& model, const TrainingOptions& options) : model_(model), options_(options) {}

  TrainingStep run();

 private:
  using Tensor = DraftGraph::Index;
  static constexpr Tensor kNone = DraftGraph::kNone;

  /// A draft tensor or a part of one, seen through views.
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

  /// Appends softmax cross-entropy to the first output unless that is a loss already, and finds the node where
  /// gradients start.
  void add_loss_node();
  std::string free_name(std::string name) const;
  /// Finds the node that makes each value, whether it is read, and the first node that reads its storage.
  void index_values();
  /// Marks the values that need a gradient and the nodes that pass one on.
  void find_differentiated();
  bool reads_differentiated(const Node& node) const;
  void add_inputs();
  void add_forward(NodeId id);
  void add_view(NodeId id, ViewKind kind);
  /// The first op that reads a parameter or a buffer holds it. All ops that read a parameter join its group.
  void hold_parameters(DraftGraph::Index op, const Node& node);
  /// Notes that the op reads the value or makes its gradient. If the value is a parameter or a view of one, the op
  /// joins the group of that parameter.
  void touch(DraftGraph::Index op, ValueId of);
  std::string signature(const std::string& type, const std::vector<ValueId>& reads,
                        const std::vector<ValueId>& writes) const;

  // --- backward (expand_backward.cpp) ---

  DraftGraph::Index add_backward_op(std::string name, const std::string& type, std::string layer, double flops,
                                    std::int64_t bytes, std::string signature_text, const std::vector<Tensor>& inputs);
  /// Adds one more term to the value's gradient.
  void contribute(ValueId id, Seen part);
  /// Layer of the node that makes the value; for a parameter, of the first node that reads it.
  const std::string& layer_of(ValueId id) const;
  /// Colocates the backward op with the op that made the value's storage, if colocate_gradients is set.
  void follow(DraftGraph::Index backward, ValueId of);
  /// The complete gradient of a value whose consumers have all been visited; kNone if it has none.
  Seen finished_gradient(ValueId id);
  /// Adds an op that zeroes a gradient of the whole and writes the parts into it.
  Tensor add_slice_gradient(ValueId whole, const std::vector<SlicePart>& parts);
  void add_backward(NodeId id);
  void add_view_gradient(NodeId id, ViewKind kind, const std::vector<Seen>& gradients, const std::vector<ValueId>& of);
  void add_concat_gradient(NodeId id, const Seen& gradient);
  void add_rule(NodeId id, const std::vector<Seen>& gradients, const std::vector<ValueId>& of);
  void add_piece(NodeId id, const BackwardRule& rule, const GradientPiece& piece, const std::vector<Seen>& gradients,
                 const std::vector<ValueId>& of, const std::vector<Tensor>& extras);
  void add_updates();
  /// Adds the ops that compute the scale of the gradients.
  Tensor add_clipping(const std::vector<std::pair<ValueId, Seen>>& gradients);

  // --- recipes of ops (expand_recipe.cpp); tensors in them are draft tensors until finish_recipe() ---

  OpRecipe& recipe(DraftGraph::Index op, OpRecipe::Kind kind);
  Operand operand(const Seen& seen) const;
  /// The operand that ops read for this value.
  Operand operand(ValueId id) const;
  static std::vector<Tensor> tensors(const std::vector<Seen>& seen);
  /// The gradients of the node's outputs `of`, at the positions of these outputs.
  std::vector<Operand> by_output(const Node& node, const std::vector<Seen>& gradients,
                                 const std::vector<ValueId>& of) const;
  static OpRecipe::Result result(Tensor tensor, std::size_t position = 0);
  /// Notes the views that lead from the whole to a slice of it.
  void note_slice(Tensor slice, Tensor of, std::vector<ViewStep> views);
  TrainingRecipe finish_recipe(const Graph& graph, const std::vector<TensorId>& declared);

  Model model_;  // with the loss appended
  const TrainingOptions& options_;
  const bool trains_ = options_.optimizer != Optimizer::none;
  NodeId seed_ = NodeId::none();      // where gradients start
  ValueId scalar_ = ValueId::none();  // shape of sums of squares
  DraftGraph draft_;
  TrainingSummary summary_;
  IdMap<ValueId, ValueId> roots_;
  IdMap<ValueId, NodeId> producer_, first_reader_;
  IdMap<ValueId, Tensor> tensor_;  // read by consumers of the value; none for parameters, buffers and constants
  IdMap<ValueId, std::vector<ViewStep>> views_;     // from the tensor, or the held array, to the value
  IdMap<ValueId, Seen> gradient_;                   // sum of the terms so far
  IdMap<ValueId, std::vector<SlicePart>> pending_;  // gradients of slices, not yet written into a whole
  IdMap<ValueId, DraftGraph::Index> maker_;         // the op that makes the value
  IdMap<ValueId, bool> needs_gradient_, held_, read_;
  IdMap<NodeId, bool> on_tape_;
  IdMap<NodeId, DraftGraph::Index> op_;
  std::vector<OpRecipe> recipes_;                   // by op
  std::vector<std::vector<ViewStep>> slice_views_;  // by draft tensor: from its whole; ends at the last slice
};

}  // namespace trainyard::detail
