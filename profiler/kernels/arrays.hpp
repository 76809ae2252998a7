#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainyard/model/model.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::kernels {

/// The lines of an array along one axis: `outer` x `step` lines of `length` elements, `step` apart.
struct Lines {
  std::size_t outer = 1, length = 1, step = 1;

  Lines(const Shape& shape, std::size_t axis) {
    for (std::size_t i = 0; i < axis && i < shape.size(); ++i) outer *= static_cast<std::size_t>(shape[i]);
    if (axis < shape.size()) length = static_cast<std::size_t>(shape[axis]);
    for (std::size_t i = axis + 1; i < shape.size(); ++i) step *= static_cast<std::size_t>(shape[i]);
  }
  std::size_t count() const { return outer * step; }
  /// Calls f(index of the line, its first element) for each line.
  template <class F>
  void each(F&& f) const {
    for (std::size_t o = 0; o < outer; ++o)
      for (std::size_t s = 0; s < step; ++s) f(o * step + s, o * length * step + s);
  }
};

/// An array in row-major order. `Data`: a pointer to its elements.
template <class Data>
struct ArrayOf {
  Data data{};
  const Shape* shape = nullptr;

  explicit operator bool() const { return static_cast<bool>(data); }
  std::size_t size() const { return static_cast<std::size_t>(elements(*shape)); }
  std::size_t rank() const { return shape->size(); }
  std::int64_t dim(std::size_t i) const { return (*shape)[i]; }
};

/// Arguments of a kernel. An entry without data is absent: an optional input, a gradient that is not wanted, or an
/// input that the backward op does not read.
template <class Array>
struct OpArraysOf {
  const Model& model;
  const Node& node;
  std::vector<Array> in, out;            // of the forward node; a forward kernel fills every `out` that has data
  std::vector<Array> dy, dx;             // backward: gradients of the outputs, and those of the inputs, to be filled
  std::vector<std::byte*> extra = {};    // kept by the forward op for the backward op
  std::uint64_t seed = 0;                // of random draws
  std::vector<std::size_t> places = {};  // draws: indices of `out` in the whole array; empty: `out` is whole

  Array input(std::size_t i) const { return i < in.size() ? in[i] : Array{}; }
  bool wants(std::size_t i) const { return i < dx.size() && dx[i]; }
  float* kept(std::size_t i = 0) const { return i < extra.size() ? reinterpret_cast<float*>(extra[i]) : nullptr; }
  const Value& value(ValueId id) const { return model.values[id]; }
};

/// Lines of the node's first input along its attribute "axis".
template <class Array>
Lines lines_along_axis(const OpArraysOf<Array>& c, std::int64_t usual) {
  const Shape& shape = c.value(c.node.inputs[0]).shape;
  return {shape, axis_at(c.node.integer("axis", usual), shape.size())};
}

/// Lines of logits along the class dimension: for our SoftmaxCrossEntropy the last one, or the second of images; for
/// ONNX operators always the second.
template <class Array>
Lines class_lines(const OpArraysOf<Array>& c) {
  const Shape& shape = c.value(c.node.inputs[0]).shape;
  const bool second = c.node.type != "SoftmaxCrossEntropy" || shape.size() == 4;
  return {shape, second ? std::min<std::size_t>(1, shape.size() - 1) : shape.size() - 1};
}

/// Shape of a reduction's result, with its reduced dimensions kept as 1.
template <class Array>
Shape reduced_shape(const OpArraysOf<Array>& c) {
  Shape shape = c.value(c.node.inputs[0]).shape;
  std::vector<std::int64_t> axes = c.node.integers("axes");
  if (const ValueId id = input_at(c.node, 1); axes.empty() && !id.is_none()) axes = c.value(id).integers;
  if (axes.empty() && c.node.integer("noop_with_empty_axes", 0) == 0) std::fill(shape.begin(), shape.end(), 1);
  for (const std::int64_t axis : axes) shape[axis_at(axis, shape.size())] = 1;
  return shape;
}

/// A property of the node that no kernel of its operator supports ("with peepholes"); empty if there is none.
std::string why_not(const Model& model, const Node& node);

}  // namespace trainyard::kernels
