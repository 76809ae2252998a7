#include <algorithm>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/cpu/matrix.hpp"
#include "profiler/kernels/window.hpp"

namespace trainyard::cpu {
namespace {

/// Calls f(first element in the columns, whether the image row is inside, first element of that row, shift) for each
/// run of windows along the last dimension. Window x of the run reads column x stride + shift of the image row.
template <class F>
void each_run(const WindowGeometry& g, std::int64_t channels, F&& f) {
  std::int64_t row = 0;
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t a = 0; a < g.kernel[0]; ++a)
      for (std::int64_t b = 0; b < g.kernel[1]; ++b)
        for (std::int64_t c = 0; c < g.kernel[2]; ++c, ++row) {
          std::int64_t at = row * g.out_size();
          for (std::int64_t z = 0; z < g.out[0]; ++z) {
            const std::int64_t iz = z * g.stride[0] - g.before[0] + a * g.dilation[0];
            for (std::int64_t y = 0; y < g.out[1]; ++y, at += g.out[2]) {
              const std::int64_t iy = y * g.stride[1] - g.before[1] + b * g.dilation[1];
              const bool inside = iz >= 0 && iz < g.in[0] && iy >= 0 && iy < g.in[1];
              const std::int64_t base = channel * g.in_size() + (iz * g.in[1] + iy) * g.in[2];
              f(at, inside, base, c * g.dilation[2] - g.before[2]);
            }
          }
        }
}

/// Columns [channels x kernel, windows] of one image's `channels` planes; padding is 0.
void image_to_columns(const WindowGeometry& g, const float* image, std::int64_t channels, float* columns) {
  each_run(g, channels, [&](std::int64_t at, bool inside, std::int64_t base, std::int64_t shift) {
    for (std::int64_t x = 0; x < g.out[2]; ++x) {
      const std::int64_t ix = x * g.stride[2] + shift;
      columns[at + x] = inside && ix >= 0 && ix < g.in[2] ? image[base + ix] : 0.0F;
    }
  });
}

/// Adds each column element to the image element that it came from.
void columns_to_image(const WindowGeometry& g, const float* columns, std::int64_t channels, float* image) {
  each_run(g, channels, [&](std::int64_t at, bool inside, std::int64_t base, std::int64_t shift) {
    if (!inside) return;
    for (std::int64_t x = 0; x < g.out[2]; ++x) {
      const std::int64_t ix = x * g.stride[2] + shift;
      if (ix >= 0 && ix < g.in[2]) image[base + ix] += columns[at + x];
    }
  });
}

std::vector<std::int64_t> spatial(const Shape& weight) { return {weight.begin() + 2, weight.end()}; }

/// Whether the windows are the image itself, so that no columns are needed.
bool is_pointwise(const WindowGeometry& g) {
  return g.kernel_size() == 1 && g.in == g.out && g.before == std::array<std::int64_t, 3>{0, 0, 0} &&
         g.stride == std::array<std::int64_t, 3>{1, 1, 1};
}

void add_bias(const Array& y, const Array& bias) {
  const std::int64_t plane = static_cast<std::int64_t>(y.size()) / (y.dim(0) * y.dim(1));
  float* at = y.data;
  for (std::int64_t n = 0; n < y.dim(0); ++n)
    for (std::int64_t channel = 0; channel < y.dim(1); ++channel, at += plane)
      for (std::int64_t i = 0; i < plane; ++i) at[i] += bias.data[channel];
}

void bias_gradient(const Array& dy, const Array& to) {
  const std::int64_t plane = static_cast<std::int64_t>(dy.size()) / (dy.dim(0) * dy.dim(1));
  std::fill(to.data, to.data + to.size(), 0.0F);
  float* at = dy.data;
  for (std::int64_t n = 0; n < dy.dim(0); ++n)
    for (std::int64_t channel = 0; channel < dy.dim(1); ++channel, at += plane)
      to.data[channel] += column(at, plane).sum();
}

void conv(OpArrays& c) {
  const Array &x = c.in[0], &w = c.in[1], &y = c.out[0];
  const WindowGeometry g{c.node, *x.shape, *y.shape, spatial(*w.shape)};
  const std::int64_t groups = c.node.integer("group", 1), in = x.dim(1) / groups, out = y.dim(1) / groups;
  const std::int64_t rows = in * g.kernel_size(), windows = g.out_size();
  const bool pointwise = is_pointwise(g);
  float* columns = pointwise ? nullptr : Scratch::floats(static_cast<std::size_t>(rows * windows));
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t group = 0; group < groups; ++group) {
      float* image = x.data + (n * x.dim(1) + group * in) * g.in_size();
      if (!pointwise) image_to_columns(g, image, in, columns);
      multiply(matrix(w.data + group * out * rows, out, rows), false,
               matrix(pointwise ? image : columns, rows, windows), false,
               matrix(y.data + (n * y.dim(1) + group * out) * windows, out, windows), false);
    }
  if (c.input(2)) add_bias(y, c.in[2]);
}

void conv_backward(OpArrays& c) {
  const Array& dy = c.dy[0];
  const Shape &x = c.value(c.node.inputs[0]).shape, &w = c.value(c.node.inputs[1]).shape;
  const WindowGeometry g{c.node, x, *dy.shape, spatial(w)};
  const std::int64_t groups = c.node.integer("group", 1), in = x[1] / groups, out = dy.dim(1) / groups;
  const std::int64_t rows = in * g.kernel_size(), windows = g.out_size();
  const bool pointwise = is_pointwise(g);
  float* columns = pointwise ? nullptr : Scratch::floats(static_cast<std::size_t>(rows * windows));
  if (c.wants(1)) std::fill(c.dx[1].data, c.dx[1].data + c.dx[1].size(), 0.0F);
  if (c.wants(0) && !pointwise) std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t at = (n * x[1] + group * in) * g.in_size();
      const MatrixMap gradient = matrix(dy.data + (n * dy.dim(1) + group * out) * windows, out, windows);
      if (c.wants(1)) {
        if (!pointwise) image_to_columns(g, c.in[0].data + at, in, columns);
        multiply(gradient, false, matrix(pointwise ? c.in[0].data + at : columns, rows, windows), true,
                 matrix(c.dx[1].data + group * out * rows, out, rows), true);
      }
      if (c.wants(0)) {
        multiply(matrix(c.in[1].data + group * out * rows, out, rows), true, gradient, false,
                 matrix(pointwise ? c.dx[0].data + at : columns, rows, windows), false);
        if (!pointwise) columns_to_image(g, columns, in, c.dx[0].data + at);
      }
    }
  if (c.wants(2)) bias_gradient(dy, c.dx[2]);
}

/// A transposed convolution is the gradient of a convolution from y's shape to x's.
WindowGeometry turned(const Node& node, const Shape& x, const Shape& w, const Shape& y) {
  WindowGeometry g{node, y, x, spatial(w)};
  const auto given = node.integers("output_shape");
  if (given.empty()) return g;
  const std::string mode = node.text("auto_pad", "NOTSET");
  const std::size_t dims = x.size() - 2, first = 3 - std::min<std::size_t>(3, dims);
  const auto more = node.integers("output_padding");
  for (std::size_t i = 0; i < dims && i < 3; ++i) {
    const std::size_t d = first + i;
    const std::int64_t full =
        (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1 + (more.empty() ? 0 : more[i]);
    const std::int64_t both = std::max<std::int64_t>(0, full - g.in[d]);
    g.before[d] = mode == "SAME_UPPER" ? both / 2 : both - both / 2;
  }
  return g;
}

void conv_transpose(OpArrays& c) {
  const Array &x = c.in[0], &w = c.in[1], &y = c.out[0];
  const WindowGeometry g = turned(c.node, *x.shape, *w.shape, *y.shape);
  const std::int64_t groups = c.node.integer("group", 1), in = x.dim(1) / groups, out = y.dim(1) / groups;
  const std::int64_t rows = out * g.kernel_size(), windows = g.out_size();
  float* columns = Scratch::floats(static_cast<std::size_t>(rows * windows));
  std::fill(y.data, y.data + y.size(), 0.0F);
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t group = 0; group < groups; ++group) {
      multiply(matrix(w.data + group * in * rows, in, rows), true,
               matrix(x.data + (n * x.dim(1) + group * in) * windows, in, windows), false,
               matrix(columns, rows, windows), false);
      columns_to_image(g, columns, out, y.data + (n * y.dim(1) + group * out) * g.in_size());
    }
  if (c.input(2)) add_bias(y, c.in[2]);
}

void conv_transpose_backward(OpArrays& c) {
  const Array& dy = c.dy[0];
  const Shape &x = c.value(c.node.inputs[0]).shape, &w = c.value(c.node.inputs[1]).shape;
  const WindowGeometry g = turned(c.node, x, w, *dy.shape);
  const std::int64_t groups = c.node.integer("group", 1), in = x[1] / groups, out = dy.dim(1) / groups;
  const std::int64_t rows = out * g.kernel_size(), windows = g.out_size();
  float* columns = Scratch::floats(static_cast<std::size_t>(rows * windows));
  if (c.wants(1)) std::fill(c.dx[1].data, c.dx[1].data + c.dx[1].size(), 0.0F);
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t group = 0; group < groups; ++group) {
      image_to_columns(g, dy.data + (n * dy.dim(1) + group * out) * g.in_size(), out, columns);
      const MatrixMap gradient = matrix(columns, rows, windows);
      const std::int64_t at = (n * x[1] + group * in) * windows;
      if (c.wants(0))
        multiply(matrix(c.in[1].data + group * in * rows, in, rows), false, gradient, false,
                 matrix(c.dx[0].data + at, in, windows), false);
      if (c.wants(1))
        multiply(matrix(c.in[0].data + at, in, windows), false, gradient, true,
                 matrix(c.dx[1].data + group * in * rows, in, rows), true);
    }
  if (c.wants(2)) bias_gradient(dy, c.dx[2]);
}

constexpr OpKernels kWindows[] = {
    {"Conv", conv, conv_backward},
    {"ConvTranspose", conv_transpose, conv_transpose_backward},
};

}  // namespace

std::span<const OpKernels> window_kernels() { return kWindows; }

}  // namespace trainyard::cpu
