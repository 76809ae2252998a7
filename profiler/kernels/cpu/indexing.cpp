#include <algorithm>
#include <numeric>

#include "profiler/kernels/cpu/kernel_tables.hpp"

namespace trainyard::cpu {
namespace {

std::int64_t index_of(float given, std::int64_t extent) {
  auto index = static_cast<std::int64_t>(given);
  if (index < 0) index += extent;
  return std::clamp<std::int64_t>(index, 0, extent - 1);
}

bool is_part_of_table(const OpArrays& c) { return c.node.has_attribute("first_row"); }

/// Calls f(first element of a table row, first element in the output, number of elements) for each index. If a rank
/// holds only the table's rows from "first_row" on, other indices are skipped.
template <class F>
void each_row(const OpArrays& c, F&& f) {
  const Shape& table = c.value(c.node.inputs[0]).shape;
  const std::size_t axis = axis_at(c.node.integer("axis", 0), table.size());
  const Lines lines{table, axis};
  const auto outer = static_cast<std::int64_t>(lines.outer), inner = static_cast<std::int64_t>(lines.step);
  const auto count = static_cast<std::int64_t>(c.in[1].size());
  if (is_part_of_table(c)) {
    const std::int64_t first = c.node.integer("first_row", 0);
    for (std::int64_t k = 0; k < count; ++k)
      if (const std::int64_t row = static_cast<std::int64_t>(c.in[1].data[k]) - first; row >= 0 && row < table[0])
        f(row * inner, k * inner, inner);
    return;
  }
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t k = 0; k < count; ++k)
      f((o * table[axis] + index_of(c.in[1].data[k], table[axis])) * inner, (o * count + k) * inner, inner);
}

void gather(OpArrays& c) {
  if (is_part_of_table(c)) std::fill_n(c.out[0].data, c.out[0].size(), 0.0F);
  each_row(c, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
    std::copy_n(c.in[0].data + from, length, c.out[0].data + to);
  });
}

void gather_backward(OpArrays& c) {
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_row(c, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) c.dx[0].data[from + i] += c.dy[0].data[to + i];
  });
}

/// GatherElements and ScatterElements: calls f(index in the data, index in the indices) for each index.
template <class F>
void each_element(const OpArrays& c, F&& f) {
  const Shape& data = c.value(c.node.inputs[0]).shape;
  const Shape& indices = *c.in[1].shape;
  const std::size_t axis = axis_at(c.node.integer("axis", 0), data.size());
  std::vector<std::int64_t> at(indices.size(), 0);
  for (std::int64_t i = 0, n = elements(indices); i < n; ++i) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < data.size(); ++d)
      from = from * data[d] + (d == axis ? index_of(c.in[1].data[i], data[axis]) : at[d]);
    f(from, i);
    for (std::size_t d = indices.size(); d-- > 0;) {
      if (++at[d] < indices[d]) break;
      at[d] = 0;
    }
  }
}

void gather_elements(OpArrays& c) {
  each_element(c, [&](std::int64_t from, std::int64_t to) { c.out[0].data[to] = c.in[0].data[from]; });
}
void gather_elements_backward(OpArrays& c) {
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_element(c, [&](std::int64_t from, std::int64_t to) { c.dx[0].data[from] += c.dy[0].data[to]; });
}

/// GatherND and ScatterND: calls f(first element in the data, first of the picked elements, number of elements) for
/// each index tuple. The indices' last dimension lists the coordinates of a tuple.
template <class F>
void each_tuple(const OpArrays& c, F&& f) {
  const Shape& data = c.value(c.node.inputs[0]).shape;
  const Shape& indices = *c.in[1].shape;
  const auto depth = static_cast<std::size_t>(indices.back());
  const auto batch = static_cast<std::size_t>(c.node.integer("batch_dims", 0));
  std::int64_t per_batch = 1, inner = 1, data_batch = 1;
  for (std::size_t i = batch; i + 1 < indices.size(); ++i) per_batch *= indices[i];
  for (std::size_t i = batch; i < data.size(); ++i) data_batch *= data[i];
  for (std::size_t i = batch + depth; i < data.size(); ++i) inner *= data[i];
  std::int64_t tuples = 1;
  for (std::size_t i = 0; i + 1 < indices.size(); ++i) tuples *= indices[i];
  for (std::int64_t t = 0; t < tuples; ++t) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < depth; ++d)
      from =
          from * data[batch + d] +
          index_of(c.in[1].data[t * static_cast<std::int64_t>(depth) + static_cast<std::int64_t>(d)], data[batch + d]);
    f(t / per_batch * data_batch + from * inner, t * inner, inner);
  }
}

void gather_nd(OpArrays& c) {
  each_tuple(c, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
    std::copy_n(c.in[0].data + from, length, c.out[0].data + to);
  });
}
void gather_nd_backward(OpArrays& c) {
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_tuple(c, [&](std::int64_t from, std::int64_t to, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) c.dx[0].data[from + i] += c.dy[0].data[to + i];
  });
}

void put(const OpArrays& c, float& to, float from) {
  if (c.node.text("reduction", "none") == "add")
    to += from;
  else
    to = from;
}

void scatter_elements(OpArrays& c) {
  std::copy_n(c.in[0].data, c.in[0].size(), c.out[0].data);
  each_element(c, [&](std::int64_t to, std::int64_t from) { put(c, c.out[0].data[to], c.in[2].data[from]); });
}
void scatter_elements_backward(OpArrays& c) {
  const bool adds = c.node.text("reduction", "none") == "add";
  if (c.wants(0)) {
    std::copy_n(c.dy[0].data, c.dy[0].size(), c.dx[0].data);
    if (!adds) each_element(c, [&](std::int64_t to, std::int64_t) { c.dx[0].data[to] = 0; });
  }
  if (c.wants(2)) each_element(c, [&](std::int64_t to, std::int64_t from) { c.dx[2].data[from] = c.dy[0].data[to]; });
}
void scatter_nd(OpArrays& c) {
  std::copy_n(c.in[0].data, c.in[0].size(), c.out[0].data);
  each_tuple(c, [&](std::int64_t to, std::int64_t from, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) put(c, c.out[0].data[to + i], c.in[2].data[from + i]);
  });
}
void scatter_nd_backward(OpArrays& c) {
  const bool adds = c.node.text("reduction", "none") == "add";
  if (c.wants(0)) {
    std::copy_n(c.dy[0].data, c.dy[0].size(), c.dx[0].data);
    if (!adds)
      each_tuple(
          c, [&](std::int64_t to, std::int64_t, std::int64_t length) { std::fill_n(c.dx[0].data + to, length, 0.0F); });
  }
  if (c.wants(2))
    each_tuple(c, [&](std::int64_t to, std::int64_t from, std::int64_t length) {
      std::copy_n(c.dy[0].data + to, length, c.dx[2].data + from);
    });
}

void one_hot(OpArrays& c) {
  const Array& y = c.out[0];
  const std::size_t axis = axis_at(c.node.integer("axis", -1), y.rank());
  const std::int64_t depth = y.dim(axis);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < y.rank(); ++i) inner *= y.dim(i);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto element = static_cast<std::int64_t>(i);
    const std::int64_t line = element / (inner * depth) * inner + element % inner, at = element / inner % depth;
    y.data[i] = c.in[2].data[index_of(c.in[0].data[line], depth) == at ? 1 : 0];
  }
}

/// Calls f(input index, output index, position along the axis) for the k largest (or smallest) elements along an axis,
/// sorted; ties go to the lower position. The backward kernel searches again.
template <class F>
void each_top(const OpArrays& c, const float* x, F&& f) {
  const Shape &in = c.value(c.node.inputs[0]).shape, &out = c.value(c.node.outputs[0]).shape;
  const std::size_t axis = axis_at(c.node.integer("axis", -1), in.size());
  const bool largest = c.node.integer("largest", 1) != 0;
  const Lines lines{in, axis};
  const auto most = static_cast<std::size_t>(out[axis]), step = lines.step;
  std::vector<std::size_t> order(lines.length);
  lines.each([&](std::size_t number, std::size_t first) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    const float* line = x + first;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return largest ? line[a * step] > line[b * step] : line[a * step] < line[b * step];
    });
    for (std::size_t k = 0; k < most; ++k)
      f(first + order[k] * step, (number / step * most + k) * step + number % step, order[k]);
  });
}
void top_k(OpArrays& c) {
  each_top(c, c.in[0].data, [&](std::size_t from, std::size_t to, std::size_t place) {
    c.out[0].data[to] = c.in[0].data[from];
    if (c.out.size() > 1 && c.out[1]) c.out[1].data[to] = static_cast<float>(place);
  });
}
void top_k_backward(OpArrays& c) {
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_top(c, c.in[0].data,
           [&](std::size_t from, std::size_t to, std::size_t) { c.dx[0].data[from] = c.dy[0].data[to]; });
}

constexpr OpKernels kIndexing[] = {
    {"Gather", gather, gather_backward},
    {"GatherElements", gather_elements, gather_elements_backward},
    {"GatherND", gather_nd, gather_nd_backward},
    {"Scatter", scatter_elements, scatter_elements_backward},
    {"ScatterElements", scatter_elements, scatter_elements_backward},
    {"ScatterND", scatter_nd, scatter_nd_backward},
    {"OneHot", one_hot, nullptr},
    {"TopK", top_k, top_k_backward},
};

}  // namespace

std::span<const OpKernels> indexing_kernels() { return kIndexing; }

}  // namespace trainyard::cpu
