#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trainyard/model/model.hpp"
#include "trainyard/training/recipe.hpp"

namespace trainyard::detail {

using MaybeCut = std::optional<Cut>;

/// The remedy for computations that are not executed.
inline constexpr const char* kPredicted = "`trainyard simulate` can still predict this step";
/// The remedy for arrays with too few rows to be divided.
inline constexpr const char* kLargerBatch = "take a larger batch, or fewer parts: ranks, replicas, microbatches";

/// Cut of an array of this shape along a dimension, in one block. Nothing if the parts would not be equal.
MaybeCut even_cut(const Shape& shape, std::size_t dimension, std::size_t parts);

/// Cut of what the view step shows of an array with this cut. Throws InputError ("not-executed") if a part of what it
/// shows is not what it shows of a part.
Cut cut_after(const Model& model, const ViewStep& step, const Cut& cut, std::size_t parts);

/// A node of which each of `parts` ranks computes a part.
struct CutNode {
  std::vector<MaybeCut> inputs, outputs;  // by position; none: whole
  bool partial = false;                   // outputs are terms of a sum
};

/// The part of the node that a rank computes, given the cuts of its inputs and, for a product, the cut `outer` of its
/// outputs. Fills in the other cuts: the same samples of another operand, the weights of these channels. Throws
/// InputError ("not-executed"), naming the node, if the node mixes different parts.
CutNode cut_node(const Model& model, const Node& node, std::vector<MaybeCut> inputs, std::size_t parts,
                 const MaybeCut& outer = std::nullopt);

/// Whether the node mixes samples by statistics of the batch. Each part of the samples can still be computed alone,
/// with its own statistics.
bool has_statistics_of_batch(const Model& model, const Node& node);

}  // namespace trainyard::detail
