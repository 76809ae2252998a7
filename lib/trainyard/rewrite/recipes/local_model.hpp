#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "trainyard/model/model.hpp"
#include "trainyard/rewrite/recipes/cuts.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::detail {

/// How an array is divided: by axis (samples, rows of the sequence), each among as many ranks as LocalModel has parts.
using Cuts = std::vector<MaybeCut>;

bool any_cut(const Cuts& cuts);

/// Parts of the values and nodes of a model, appended to it: once for all ranks, whose parts are alike.
class LocalModel {
 public:
  /// `parts`: by axis.
  LocalModel(Model& model, std::vector<std::size_t> parts) : model_(model), parts_(std::move(parts)) {}

  const std::vector<std::size_t>& parts() const { return parts_; }
  Cuts whole() const { return Cuts(parts_.size()); }

  /// The value with the extents of a part; itself where nothing is cut.
  ValueId value(ValueId id, const Cuts& cuts);
  /// A node of such values.
  NodeId node(NodeId id, const std::vector<Cuts>& inputs, const std::vector<Cuts>& outputs);

  /// What a step shows of a part.
  Cuts seen(const ViewStep& step, const Cuts& cuts) const;
  /// The step through the part of its node.
  ViewStep step(const ViewStep& step, const Cuts& cuts);
  /// Both, step by step.
  Cuts through(std::vector<ViewStep>& views, Cuts cuts);
  Cuts seen(const std::vector<ViewStep>& views, Cuts cuts) const;

  /// A cut of other ranks, of an array that is cut so besides.
  Cut within(const Cut& cut, const Cuts& cuts) const;

  /// A part of a value that a rank has for its own.
  ValueId copy(ValueId of, const Cuts& cuts, const std::string& suffix);

 private:
  Model& model_;
  std::vector<std::size_t> parts_;
  std::map<std::pair<ValueId, std::string>, ValueId> values_;
  std::map<std::pair<NodeId, std::string>, NodeId> nodes_;
};

/// The value that the last of the steps shows of an array with the shape of `value`.
ValueId value_after(const Model& model, const std::vector<ViewStep>& views, ValueId value);

/// Part of what `parts` leave of an array; or, `outermost`, parts of what is left of it after this one, which all ranks
/// with any of the samples then agree about.
void add_part(std::vector<Part>& parts, Part part, bool outermost);

/// Says of what the array is a copy or a part, in terms of the model before all rewrites.
void note_copy(TrainingRecipe& recipe, ValueId copy, ValueId of, const std::vector<Part>& parts,
               bool outermost = false);

}  // namespace trainyard::detail
