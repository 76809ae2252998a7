#pragma once

#include <array>
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

/// Axes along which replicas divide arrays, by number: the samples; the rows of each; the heads of attention, among
/// those that share rows; the samples of groups of replicas that hold different experts; and these experts.
struct BatchAxes {
  static constexpr std::size_t kSamples = 0, kRows = 1, kHeads = 2, kGroups = 3, kExperts = 4, kCount = 5;
  std::size_t samples = 1, rows = 1, groups = 1, experts = 1;
  /// Shares of all samples, of which replicas have theirs, and not the other way round: however many replicas stages
  /// have, one share of a step goes through all of them.
  bool outermost = false;
};
using BatchIndex = std::array<std::size_t, BatchAxes::kCount>;

/// Shares of a step's samples, and of the rows of each: what an op computes on its share. All shares are alike but for
/// the inputs that they read; the loss of one counts as its part of the mean over all.
class BatchShares {
 public:
  /// Divides the samples, the first dimension of the first input and the first that is as long of each other one, and
  /// the rows of the sequence, the second. `result` is the recipe that is being made, with a copy of the model. Throws
  /// InputError ("not-executed") where parts are not equal, or an op mixes what is in different ones.
  BatchShares(const Graph& graph, const TrainingRecipe& recipe, TrainingRecipe& result, const BatchAxes& axes);

  /// Attention, queries, keys and values [samples, heads, rows, size], looks at all rows by ways of its own.
  IdMap<OpId, bool> is_attention;
  /// Finds the shares; to be called once before the first.
  void find();

  /// What a share names in place of what the op reads and writes.
  struct Names {
    std::function<TensorId(TensorId)> tensor;
    std::function<ValueId(ValueId)> held;  // parameters and buffers
    /// The other form of its arrays, where they have one: how they are cut, from how they are among all shares, of this
    /// value.
    std::function<Cuts(Cuts, ValueId)> form = {};
    std::function<Cuts(ValueId)> held_form = {};  // of what `held` names; whole without it
  };
  /// The op on one share.
  OpRecipe share(OpId op, const BatchIndex& index, const Names& names);

  /// What is cut of a tensor, and of a value, in the graph that is divided.
  const Cuts& cuts(TensorId tensor) const { return tensor_[tensor]; }
  const Cuts& cuts(ValueId value) const { return value_[value]; }
  /// The value whose shape the tensor has; none: a part of one, or of several.
  ValueId value_of(TensorId tensor) const { return like_[tensor]; }
  LocalModel& local() { return local_; }
  /// Cuts of the node's inputs or outputs, by position and axis.
  std::vector<Cuts> side(NodeId node, bool outputs) const;

 private:
  Cuts cuts_of(const Operand& operand) const;
  /// What is cut of a part of an array that is.
  Cuts part_of_cuts(Cuts cuts, const Part& part) const;
  void note(ValueId value, const Cuts& cuts);
  void make(const OpRecipe::Result& result, const Cuts& cuts, ValueId value);
  void find(OpId op);
  ValueId whole_input(ValueId input) const;
  const Shape& whole_shape(ValueId input) const;
  /// States that a recurrent network starts from, [layers, samples, width]: nodes pick one of the layers, or an LSTM
  /// takes all.
  bool has_layers_first(ValueId input) const;
  /// All samples have it together, as positions [1, rows].
  bool is_for_all(ValueId input) const;
  std::size_t dimension_of(ValueId input, std::size_t axis) const;
  void find_forward(OpId op);
  bool is_loss(const OpRecipe& how) const;
  double part_of_loss(const OpRecipe& how) const;

  const Graph& graph_;
  const TrainingRecipe& from_;
  TrainingRecipe& to_;
  LocalModel local_;
  const bool outermost_;
  std::int64_t samples_ = 0;
  IdMap<TensorId, Cuts> tensor_;
  IdMap<TensorId, ValueId> like_;
  IdMap<ValueId, Cuts> value_;
  std::map<NodeId, std::vector<CutNode>> nodes_;  // by axis
  std::map<std::pair<ValueId, BatchIndex>, ValueId> inputs_;
};

/// Ids by name, of a graph that a rewrite made.
class TensorNames {
 public:
  explicit TensorNames(const Graph& graph);
  std::optional<TensorId> find(std::string_view name) const;
  /// The tensor of that name, which is there.
  TensorId at(std::string_view name) const;

 private:
  std::map<std::string_view, TensorId> ids_;
};

}  // namespace trainyard::detail
