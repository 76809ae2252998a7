#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/recipes/local_model.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::detail {

/// Shares of a step's samples, and of the rows of each: what an op computes on its share. All shares are alike but for
/// the inputs that they read; the loss of one counts as its part of the mean over all.
class BatchShares {
 public:
  /// Divides the samples, the first dimension of the first input and that which is as long of each other one, in
  /// `samples` parts, and the rows of the sequence, the second, in `rows`. `result` is the recipe that is being made,
  /// with a copy of the model. Throws InputError
  /// ("not-executed") where parts are not equal, or an op mixes what is in different ones.
  BatchShares(const Graph& graph, const TrainingRecipe& recipe, TrainingRecipe& result, std::size_t samples,
              std::size_t rows = 1);

  /// What a share names in place of what the op reads and writes.
  struct Names {
    std::function<TensorId(TensorId)> tensor;
    std::function<ValueId(ValueId)> held;  // parameters and buffers
  };
  /// The op on share `sample` of the samples and `row` of the rows.
  OpRecipe share(OpId op, std::size_t sample, std::size_t row, const Names& names);

  /// What is cut of a tensor, and of a value, in the graph that is divided.
  const Cuts& cuts(TensorId tensor) const { return tensor_[tensor]; }
  const Cuts& cuts(ValueId value) const { return value_[value]; }
  /// The value whose shape the tensor has; none: a part of one, or of several.
  ValueId value_of(TensorId tensor) const { return like_[tensor]; }
  LocalModel& local() { return local_; }
  /// Ops whose attention is made of shares in a way of its own: not looked at.
  IdMap<OpId, bool> apart;

  /// To be called once before the first share.
  void find();

 private:
  Cuts cuts_of(const Operand& operand) const;
  void note(ValueId value, const Cuts& cuts);
  void make(const OpRecipe& how, const OpRecipe::Result& result, const Cuts& cuts, ValueId value);
  void find(OpId op);
  std::size_t dimension_of(ValueId input, std::size_t axis) const;
  void find_forward(OpId op);
  bool is_loss(const OpRecipe& how) const;
  double part_of_loss(const OpRecipe& how) const;
  /// Cuts of the node's inputs or outputs, by position and axis.
  std::vector<Cuts> side(NodeId node, bool outputs) const;
  NodeId local_node(NodeId node);

  const Graph& graph_;
  const TrainingRecipe& from_;
  TrainingRecipe& to_;
  LocalModel local_;
  std::int64_t samples_ = 0;
  IdMap<TensorId, Cuts> tensor_;
  IdMap<TensorId, ValueId> like_;
  IdMap<ValueId, Cuts> value_;
  std::map<NodeId, std::vector<CutNode>> nodes_;  // by axis
  std::map<std::pair<ValueId, std::pair<std::size_t, std::size_t>>, ValueId> inputs_;
};

/// Ids by name, of a graph that a rewrite made.
class TensorNames {
 public:
  explicit TensorNames(const Graph& graph);
  std::optional<TensorId> find(std::string_view name) const;
  /// It is there.
  TensorId at(std::string_view name) const;

 private:
  std::map<std::string_view, TensorId> ids_;
};

}  // namespace trainyard::detail
