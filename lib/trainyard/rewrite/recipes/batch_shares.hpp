#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "trainyard/core/id_map.hpp"
#include "trainyard/graph/graph.hpp"
#include "trainyard/rewrite/recipes/local_model.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::detail {

/// Axes along which replicas divide arrays, by number: samples; rows of each sample; heads of attention, among replicas
/// that share rows; samples of a group of replicas that hold different experts; and these experts.
struct BatchAxes {
  static constexpr std::size_t kSamples = 0, kRows = 1, kHeads = 2, kGroups = 3, kExperts = 4, kCount = 5;
  std::size_t samples = 1, rows = 1, groups = 1, experts = 1;
  /// True if the shares are of all samples and replicas have shares of these (microbatches), rather than the reverse.
  /// One share of a step then goes through all replicas of each stage, however many these are.
  bool outermost = false;
};
using BatchIndex = std::array<std::size_t, BatchAxes::kCount>;

/// Shares of a step's samples, and of the rows of each: the computation of each op on its share. Shares differ only in
/// the inputs that they read. The loss of one share counts as its part of the mean over all.
class BatchShares {
 public:
  /// Divides the samples: the first dimension of the first input and, in each other input, the first dimension of the
  /// same length. Also divides the rows of the sequence, the second dimension. `result` is the recipe under
  /// construction, with a copy of the model. find() and share() throw InputError ("not-executed") if parts are not
  /// equal, or an op mixes different parts.
  BatchShares(const Graph& graph, const TrainingRecipe& recipe, TrainingRecipe& result, const BatchAxes& axes);

  /// Marks attention, whose queries, keys and values are [samples, heads, rows, size]. It looks at all rows; the caller
  /// makes its recipe.
  IdMap<OpId, bool> is_attention;
  /// Finds the cuts of all arrays. Must be called once, before share().
  void find();

  /// Names of a share for what the op reads and writes.
  struct Names {
    std::function<TensorId(TensorId)> tensor;
    std::function<ValueId(ValueId)> held;  // parameters and buffers
    /// Changes the cuts of a value, as they are among all shares, if the op has its arrays in another form (of
    /// experts).
    std::function<Cuts(Cuts, ValueId)> form = {};
    std::function<Cuts(ValueId)> held_form = {};  // cuts of values that `held` names; whole if empty
  };
  /// Recipe of the op on one share.
  OpRecipe share(OpId op, const BatchIndex& index, const Names& names);

  /// Cuts of a tensor, and of a value, of the graph that is divided.
  const Cuts& cuts(TensorId tensor) const { return tensor_[tensor]; }
  const Cuts& cuts(ValueId value) const { return value_[value]; }
  /// The value with the tensor's shape; none() for a part of a value, or of several.
  ValueId value_of(TensorId tensor) const { return like_[tensor]; }
  LocalModel& local() { return local_; }
  /// Cuts of the node's inputs or outputs, by position and axis.
  std::vector<Cuts> side(NodeId node, bool outputs) const;

 private:
  Cuts cuts_of(const Operand& operand) const;
  /// Cuts of a part of an array that has these cuts.
  Cuts part_of_cuts(Cuts cuts, const Part& part) const;
  void note(ValueId value, const Cuts& cuts);
  /// Notes the cuts of the values that the views show, of an array with these cuts. Returns those of the last.
  Cuts note_views(const std::vector<ViewStep>& views, Cuts cuts);
  /// Notes the cuts of a value that no forward op has seen, from the gradient of a view of it, such as a slice.
  void note_viewed(ValueId value, ValueId view, const Operand& gradient);
  void make(const OpRecipe::Result& result, const Cuts& cuts, ValueId value);
  void find(OpId op);
  ValueId whole_input(ValueId input) const;
  const Shape& whole_shape(ValueId input) const;
  /// Whether the input holds initial states of a recurrent network, [layers, samples, width]: nodes pick one of the
  /// layers, or an LSTM takes all.
  bool has_layers_first(ValueId input) const;
  /// Whether all samples have the input in common, such as positions [1, rows].
  bool is_for_all(ValueId input) const;
  std::size_t dimension_of(ValueId input, std::size_t axis) const;
  void find_input(const OpRecipe& how);
  void find_forward(OpId op);
  void find_backward(OpId op);
  void find_combination(OpId op);
  /// Cuts of what the op reads, end to end if it joins.
  Cuts joined_cuts(const OpRecipe& how) const;
  /// Parts of a share by the cuts that an array of cuts `has` does not have.
  std::vector<Part> parts_by(const BatchIndex& index, const Cuts& cuts, const Cuts& has) const;
  ValueId input_share(ValueId input, const BatchIndex& index);
  std::shared_ptr<const Drawn> drawn_share(const OpRecipe& how, const Cuts& output, const BatchIndex& index) const;
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

/// Ids by name for a graph that a rewrite made.
class TensorNames {
 public:
  explicit TensorNames(const Graph& graph);
  std::optional<TensorId> find(std::string_view name) const;
  /// The tensor of that name, which must exist.
  TensorId at(std::string_view name) const;

 private:
  std::map<std::string_view, TensorId> ids_;
};

}  // namespace trainyard::detail
