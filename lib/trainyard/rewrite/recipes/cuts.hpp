#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trainyard/model/model.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::detail {

using MaybeCut = std::optional<Cut>;

/// The cut of an array of this shape along a dimension, in one block. Nothing where the parts would not be equal.
MaybeCut even_cut(const Shape& shape, std::size_t dimension, std::size_t parts);

/// An array that is cut, seen through a view: what each part becomes. Throws InputError ("not-executed") where the
/// parts of what is seen are not those of the array.
Cut cut_after(const Model& model, const ViewStep& step, const Cut& cut, std::size_t parts);

/// A node of which each of `parts` ranks computes a part.
struct CutNode {
  std::vector<MaybeCut> inputs, outputs;  // by position; none: whole
  bool partial = false;                   // outputs are terms of a sum
};

/// The part of the node that belongs to the parts of inputs that are given, and to the outputs' `outer`, of a product:
/// which of its outputs a rank computes. Fills in what else is cut: the same samples of another operand, the weights of
/// these channels. Throws InputError ("not-executed"), naming the node, where the node mixes what is in different
/// parts.
CutNode cut_node(const Model& model, const Node& node, std::vector<MaybeCut> inputs, std::size_t parts,
                 const MaybeCut& outer = std::nullopt);

/// Whether the node mixes samples, though each part of them can be computed alone: by other statistics than those of
/// all.
bool has_statistics_of_batch(const Model& model, const Node& node);

}  // namespace trainyard::detail
