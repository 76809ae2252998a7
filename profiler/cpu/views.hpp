#pragma once

#include <span>
#include <vector>

#include "profiler/cpu/arrays.hpp"
#include "trainyard/transform/recipe.hpp"

namespace trainyard::cpu {

/// Output `index` of a view node as elements of its input 0: element (i, j, ..) lies at offset + i x strides[0] + ..
struct Strided {
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;
  bool dense = false;  // the same elements in the same order
};
/// Throws InputError ("unsupported-op") for an operator that is no view.
Strided strided_view(const Model& model, const Node& node, std::size_t index);

/// The shape that an array has after the steps.
const Shape& shape_after(const Model& model, std::span<const ViewStep> views, const Shape& before);

/// The array seen through the steps: the same memory where they only change its shape, otherwise a copy in scratch.
Array seen(const Model& model, std::span<const ViewStep> views, Array array);

/// How many elements a Pad puts before those of its input, by dimension; fewer than none where it crops.
std::vector<std::int64_t> pads_before(const Model& model, const Node& node, std::size_t rank);

/// Adds the gradient of a view's output to where its elements lie in that of the whole.
void add_to_whole(const Model& model, const Node& view, const Array& gradient, const Array& whole);

}  // namespace trainyard::cpu
