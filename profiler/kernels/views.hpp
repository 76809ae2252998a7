#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/training/recipe.hpp"

namespace trainyard::kernels {

/// Output `index` of a view node as elements of its input 0: element (i, j, ..) lies at offset + i x strides[0] + ..
struct Strided {
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;
  bool dense = false;  // same elements in the same order
};
/// Throws InputError ("unsupported-op") for an operator that is not a view.
Strided strided_view(const Model& model, const Node& node, std::size_t index);

/// The part of a Concat's output that its input `index` fills.
Strided part_view(const Model& model, const Node& node, std::size_t index);

/// Shape of an array after the steps.
const Shape& shape_after(const Model& model, std::span<const ViewStep> views, const Shape& before);

/// Number of elements that a Pad puts before its input, by dimension; negative if it crops.
std::vector<std::int64_t> pads_before(const Model& model, const Node& node, std::size_t rank);

}  // namespace trainyard::kernels
