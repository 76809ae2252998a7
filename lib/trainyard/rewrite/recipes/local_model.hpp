#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "trainyard/model/model.hpp"
#include "trainyard/rewrite/recipes/cuts.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::detail {

/// How an array is divided, by axis (such as samples and rows of the sequence). Along an axis, it is divided equally
/// into as many parts as LocalModel::parts() has for the axis.
using Cuts = std::vector<MaybeCut>;

bool any_cut(const Cuts& cuts);

/// Parts of the values and nodes of a model, appended to it. Each is added once for all ranks, whose parts are alike.
class LocalModel {
 public:
  /// `parts`: number of parts, by axis.
  LocalModel(Model& model, std::vector<std::size_t> parts) : model_(model), parts_(std::move(parts)) {}

  const std::vector<std::size_t>& parts() const { return parts_; }
  Cuts whole() const { return Cuts(parts_.size()); }

  /// The value with the extents of a part; `id` itself if nothing is cut. value() and within() throw InputError
  /// ("not-executed") if the parts are not equal.
  ValueId value(ValueId id, const Cuts& cuts);
  /// The node on the parts of its inputs and outputs.
  NodeId node(NodeId id, const std::vector<Cuts>& inputs, const std::vector<Cuts>& outputs);

  /// Cuts of what the view step shows of an array with these cuts.
  Cuts seen(const ViewStep& step, const Cuts& cuts) const;
  /// The view step on a part: through the part of its node.
  ViewStep step(const ViewStep& step, const Cuts& cuts);
  /// Replaces each step by the step on a part, and returns the cuts after the last one.
  Cuts through(std::vector<ViewStep>& views, Cuts cuts);
  Cuts seen(const std::vector<ViewStep>& views, Cuts cuts) const;

  /// `cut`, by which other ranks divide the whole array, as a cut of one of the parts that these cuts leave.
  Cut within(const Cut& cut, const Cuts& cuts) const;

  /// Adds a value: the part of `of` that a rank holds. The suffix is appended to its name.
  ValueId copy(ValueId of, const Cuts& cuts, const std::string& suffix);

 private:
  Model& model_;
  std::vector<std::size_t> parts_;
  std::map<std::pair<ValueId, std::string>, ValueId> values_;
  std::map<std::pair<NodeId, std::string>, NodeId> nodes_;
};

/// The value that the last step shows of an array with the shape of `value`.
ValueId value_after(const Model& model, const std::vector<ViewStep>& views, ValueId value);

/// Appends `part`, as a part of what `parts` leave. With `outermost` it becomes the first part, and `parts` apply to
/// what it leaves, if the blocks allow that. All ranks with any of the samples then agree about it.
void add_part(std::vector<Part>& parts, Part part, bool outermost);

/// Notes that `copy` is a copy or a part of `of`, in terms of the model before all rewrites.
void note_copy(TrainingRecipe& recipe, ValueId copy, ValueId of, const std::vector<Part>& parts,
               bool outermost = false);

}  // namespace trainyard::detail
