#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/kernels/arrays.hpp"
#include "profiler/kernels/strides.hpp"

/// Shapes of matrix products on any device.
namespace trainyard::kernels {

/// Number of rows, with the last dimension of `shape` as columns.
inline std::int64_t rows_of(const Shape& shape) {
  return shape.empty() ? 1 : elements(shape) / std::max<std::int64_t>(1, shape.back());
}

/// The matrices [m, k] x [k, n] of a MatMul; the leading dimensions broadcast as in NumPy.
struct BatchedShape {
  Shape batch;
  std::int64_t m, n, k;

  BatchedShape(Shape a, Shape b) {
    if (a.size() == 1) a.insert(a.begin(), 1);
    if (b.size() == 1) b.push_back(1);
    m = a[a.size() - 2], k = a.back(), n = b.back();
    const Shape left(a.begin(), a.end() - 2), right(b.begin(), b.end() - 2);
    batch.assign(std::max(left.size(), right.size()), 1);
    for (const Shape* own : {&left, &right})
      for (std::size_t i = 0; i < own->size(); ++i)
        if ((*own)[i] != 1) batch[batch.size() - own->size() + i] = (*own)[i];
    a_strides_ = broadcast_strides(left, batch), b_strides_ = broadcast_strides(right, batch);
  }
  /// Elements from one matrix to the next over the whole batch; 0 if one matrix serves all; none if broadcast
  /// dimensions make the steps differ.
  std::optional<std::int64_t> step_a() const { return step(a_strides_, m * k); }
  std::optional<std::int64_t> step_b() const { return step(b_strides_, k * n); }
  std::int64_t count() const { return elements(batch); }

  /// Calls f(index in the batch, first element of A's matrix, first element of B's matrix) for each product.
  template <class F>
  void each(F&& f) const {
    std::int64_t i = 0;
    walk<2>(batch, {a_strides_, b_strides_},
            [&](const std::array<std::int64_t, 2>& at) { f(i++, at[0] * m * k, at[1] * k * n); });
  }

 private:
  std::optional<std::int64_t> step(const std::vector<std::int64_t>& strides, std::int64_t matrix) const {
    std::optional<std::int64_t> unit;  // matrices from one index of the batch to the next
    std::int64_t inner = 1;
    for (std::size_t i = batch.size(); i-- > 0;) {
      if (batch[i] == 1) continue;
      if (!unit) unit = strides[i];
      if (strides[i] != *unit * inner) return std::nullopt;
      inner *= batch[i];
    }
    return unit.value_or(0) * matrix;
  }

  std::vector<std::int64_t> a_strides_, b_strides_;  // in matrices
};

/// LSTM of S steps, batch B, I inputs, H hidden units, D directions: X [S, B, I], W [D, 4H, I], R [D, 4H, H], b [D,
/// 8H]. Gates are in ONNX's order i, o, f, c; no peepholes, no clipping, full sequences. Kept for each direction, step,
/// row and unit: i, o, f, c~, c, tanh c, h.
struct Lstm {
  std::int64_t steps, batch, inputs, hidden, directions;
  bool reverse;

  template <class Array>
  explicit Lstm(const OpArraysOf<Array>& c) {
    const Shape &x = c.value(c.node.inputs[0]).shape, &r = c.value(c.node.inputs[2]).shape;
    steps = x[0], batch = x[1], inputs = x[2], directions = r[0], hidden = r[2];
    reverse = c.node.text("direction", "forward") == "reverse";
  }
  std::int64_t cell() const { return batch * hidden; }
  std::int64_t time(std::int64_t d, std::int64_t step) const { return d == 1 || reverse ? steps - 1 - step : step; }
  /// Slot `which` of 7 of a direction and a step, in the order of execution.
  template <class Data>
  Data kept(const Data& all, std::int64_t d, std::int64_t step, std::int64_t which) const {
    return all + ((d * steps + step) * 7 + which) * cell();
  }
};

}  // namespace trainyard::kernels
