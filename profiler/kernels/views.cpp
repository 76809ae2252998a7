#include "profiler/kernels/views.hpp"

#include <algorithm>
#include <array>

#include "profiler/kernels/arrays.hpp"
#include "profiler/kernels/strides.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::kernels {
namespace {

Strided slice_view(const Model& model, const Node& node, const Shape& in) {
  const auto starts = numbers_of(model, node, "starts", 1);
  auto axes = numbers_of(model, node, "axes", 3);
  const auto steps = numbers_of(model, node, "steps", 4);
  Strided view{.strides = dense_strides(in)};
  const std::vector<std::int64_t> dense = view.strides;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = axes.empty() ? i : axis_at(axes[i], in.size());
    const std::int64_t step = steps.empty() ? 1 : steps[i], extent = in[axis];
    const std::int64_t start = starts[i] < 0 ? starts[i] + extent : starts[i];
    view.offset += std::clamp<std::int64_t>(start, 0, step < 0 ? extent - 1 : extent) * dense[axis];
    view.strides[axis] = dense[axis] * step;
  }
  return view;
}

Strided gather_view(const Model& model, const Node& node, const Shape& in, const Shape& out) {
  const std::size_t axis = axis_at(node.integer("axis", 0), in.size());
  const auto strides = dense_strides(in);
  std::int64_t index = model.values[node.inputs[1]].integers.at(0);
  if (index < 0) index += in[axis];
  Strided view{.offset = index * strides[axis]};
  for (std::size_t i = 0; i < axis; ++i) view.strides.push_back(strides[i]);
  view.strides.resize(out.size() - (in.size() - axis - 1), 0);  // the dimensions of the index
  for (std::size_t i = axis + 1; i < in.size(); ++i) view.strides.push_back(strides[i]);
  return view;
}

}  // namespace

Strided strided_view(const Model& model, const Node& node, std::size_t index) {
  const Shape& in = model.values[node.inputs[0]].shape;
  const Shape& out = model.values[node.outputs[index]].shape;
  const std::string& type = node.type;
  if (type == "Transpose") {
    auto order = node.integers("perm");
    if (order.empty())
      for (std::size_t i = in.size(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
    const auto strides = dense_strides(in);
    Strided view;
    for (const std::int64_t axis : order) view.strides.push_back(strides[axis_at(axis, in.size())]);
    return view;
  }
  if (type == "Slice") return slice_view(model, node, in);
  if (type == "Split") {
    const std::size_t axis = axis_at(node.integer("axis", 0), in.size());
    Strided view{.strides = dense_strides(in)};
    for (std::size_t i = 0; i < index; ++i)
      view.offset += model.values[node.outputs[i]].shape[axis] * view.strides[axis];
    return view;
  }
  if (type == "Gather") return gather_view(model, node, in, out);
  if (type == "Expand") return {.strides = broadcast_strides(in, out)};
  static constexpr std::array<std::string_view, 8> kDense{"Reshape",  "Flatten", "Squeeze", "Unsqueeze",
                                                          "Identity", "Dropout", "Cast",    "CastLike"};
  if (std::find(kDense.begin(), kDense.end(), type) == kDense.end())
    refuse("unsupported-op", "the operator '" + type + "' cannot be a view of its input", "");
  return {.strides = dense_strides(out), .dense = true};
}

Strided part_view(const Model& model, const Node& node, std::size_t index) {
  const Shape& out = model.values[node.outputs[0]].shape;
  const std::size_t axis = axis_at(node.integer("axis", 0), out.size());
  Strided view{.strides = dense_strides(out)};
  for (std::size_t i = 0; i < index; ++i) view.offset += model.values[node.inputs[i]].shape[axis] * view.strides[axis];
  return view;
}

const Shape& shape_after(const Model& model, std::span<const ViewStep> views, const Shape& before) {
  if (views.empty()) return before;
  const ViewStep& last = views.back();
  const Node& node = model.nodes[last.node];
  switch (last.kind) {
    case ViewStep::Kind::output:
      return model.values[node.outputs[last.index]].shape;
    case ViewStep::Kind::undo:
      return model.values[node.inputs[0]].shape;
    case ViewStep::Kind::part:
      return model.values[node.inputs[last.index]].shape;
  }
  return before;
}

std::vector<std::int64_t> pads_before(const Model& model, const Node& node, std::size_t rank) {
  std::vector<std::int64_t> pads = node.integers("pads"), axes, before(rank, 0);
  if (const ValueId id = input_at(node, 1); pads.empty() && !id.is_none()) pads = model.values[id].integers;
  if (const ValueId id = input_at(node, 3); !id.is_none()) axes = model.values[id].integers;
  for (std::size_t i = 0; i < pads.size() / 2; ++i) before[axes.empty() ? i : axis_at(axes[i], rank)] = pads[i];
  return before;
}

}  // namespace trainyard::kernels
