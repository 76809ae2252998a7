#include "profiler/kernels/products.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "profiler/kernels/cuda/gpu_kernels.hpp"
#include "profiler/kernels/window.hpp"

namespace trainyard::cuda {
namespace {

void add_broadcast(Gpu& gpu, const Array& y, const Array& bias, float scale) {
  Reals from = bias.data;
  if (scale != 1) {
    const Reals scaled = gpu.scratch(bias.size(), bias.data);
    gpu.scale_add(scaled, bias.data, scale, 0, bias.size());
    from = scaled;
  }
  gpu.each("Add_f", y.size(), y.data, y.data, from,
           strides_over(*y.shape, broadcast_strides(*y.shape, *y.shape), broadcast_strides(*bias.shape, *y.shape)));
}

void linear(OpArrays& c, Gpu& gpu) {
  const Array &x = c.in[0], &w = c.in[1], &y = c.out[0];
  gpu.multiply(false, false, rows_of(*x.shape), w.dim(1), w.dim(0), 1, x.data, w.data, 0, y.data);
  if (c.input(2)) add_broadcast(gpu, y, c.in[2], 1);
}
void linear_d(OpArrays& c, Gpu& gpu) {
  const Array& dy = c.dy[0];
  const std::int64_t n = dy.shape->back(), m = rows_of(*dy.shape);
  if (c.wants(0)) gpu.multiply(false, true, m, c.in[1].dim(0), n, 1, dy.data, c.in[1].data, 0, c.dx[0].data);
  if (c.wants(1)) gpu.multiply(true, false, c.dx[1].dim(0), n, m, 1, c.in[0].data, dy.data, 0, c.dx[1].data);
  if (c.wants(2)) gpu.sum_to_shape(dy.data, *dy.shape, c.dx[2]);
}

void gemm(OpArrays& c, Gpu& gpu) {
  const bool ta = c.node.integer("transA", 0) != 0, tb = c.node.integer("transB", 0) != 0;
  const Array& y = c.out[0];
  gpu.multiply(ta, tb, y.dim(0), y.dim(1), c.in[0].dim(ta ? 0 : 1), static_cast<float>(c.node.real("alpha", 1)),
               c.in[0].data, c.in[1].data, 0, y.data);
  if (c.input(2)) add_broadcast(gpu, y, c.in[2], static_cast<float>(c.node.real("beta", 1)));
}
void gemm_d(OpArrays& c, Gpu& gpu) {
  const bool ta = c.node.integer("transA", 0) != 0, tb = c.node.integer("transB", 0) != 0;
  const auto alpha = static_cast<float>(c.node.real("alpha", 1)), beta = static_cast<float>(c.node.real("beta", 1));
  const Array& g = c.dy[0];
  const std::int64_t m = g.dim(0), n = g.dim(1);
  if (c.wants(0)) {
    const std::int64_t k = c.dx[0].dim(ta ? 0 : 1);
    if (ta)
      gpu.multiply(tb, true, k, m, n, alpha, c.in[1].data, g.data, 0, c.dx[0].data);
    else
      gpu.multiply(false, !tb, m, k, n, alpha, g.data, c.in[1].data, 0, c.dx[0].data);
  }
  if (c.wants(1)) {
    const std::int64_t k = c.dx[1].dim(tb ? 1 : 0);
    if (tb)
      gpu.multiply(true, ta, n, k, m, alpha, g.data, c.in[0].data, 0, c.dx[1].data);
    else
      gpu.multiply(!ta, false, k, n, m, alpha, c.in[0].data, g.data, 0, c.dx[1].data);
  }
  if (c.wants(2)) {
    gpu.sum_to_shape(g.data, *g.shape, c.dx[2]);
    if (beta != 1) gpu.scale_add(c.dx[2].data, c.dx[2].data, beta, 0, c.dx[2].size());
  }
}

void matmul(OpArrays& c, Gpu& gpu) {
  const BatchedShape s{*c.in[0].shape, *c.in[1].shape};
  const auto step_a = s.step_a(), step_b = s.step_b();
  if (step_a && step_b)
    return gpu.multiply_each(s.count(), false, false, s.m, s.n, s.k, c.in[0].data, *step_a, c.in[1].data, *step_b,
                             c.out[0].data, s.m * s.n);
  s.each([&](std::int64_t i, std::int64_t a, std::int64_t b) {
    gpu.multiply(false, false, s.m, s.n, s.k, 1, c.in[0].data + a, c.in[1].data + b, 0, c.out[0].data + i * s.m * s.n);
  });
}
void matmul_d(OpArrays& c, Gpu& gpu) {
  const BatchedShape s{c.value(c.node.inputs[0]).shape, c.value(c.node.inputs[1]).shape};
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (!c.wants(side)) continue;
    const auto step_a = s.step_a(), step_b = s.step_b();
    const bool apart = s.count() == 1 || (side == 0 ? step_a : step_b).value_or(0) != 0;  // no sum over the batch
    if (step_a && step_b && apart) {
      if (side == 0)
        gpu.multiply_each(s.count(), false, true, s.m, s.k, s.n, c.dy[0].data, s.m * s.n, c.in[1].data, *step_b,
                          c.dx[0].data, s.m * s.k);
      else
        gpu.multiply_each(s.count(), true, false, s.k, s.n, s.m, c.in[0].data, *step_a, c.dy[0].data, s.m * s.n,
                          c.dx[1].data, s.k * s.n);
      continue;
    }
    gpu.fill(c.dx[side].data, 0, c.dx[side].size());
    s.each([&](std::int64_t i, std::int64_t a, std::int64_t b) {
      const Reals g = c.dy[0].data + i * s.m * s.n;
      if (side == 0)
        gpu.multiply(false, true, s.m, s.k, s.n, 1, g, c.in[1].data + b, 1, c.dx[0].data + a);
      else
        gpu.multiply(true, false, s.k, s.n, s.m, 1, c.in[0].data + a, g, 1, c.dx[1].data + b);
    });
  }
}

/// Layout of the kernels' argument.
struct Window {
  std::int64_t batch, channels, in[3], out[3], kernel[3], stride[3], dilation[3], before[3];

  explicit Window(const WindowGeometry& g) : batch(g.batch), channels(g.channels) {
    for (std::size_t d = 0; d < 3; ++d) {
      in[d] = g.in[d], out[d] = g.out[d], kernel[d] = g.kernel[d], stride[d] = g.stride[d];
      dilation[d] = g.dilation[d], before[d] = g.before[d];
    }
  }
};

void to_columns(Gpu& gpu, const WindowGeometry& g, const Reals& image, std::int64_t channels, const Reals& columns) {
  gpu.each("image_to_columns", whole(channels * g.kernel_size() * g.out_size()), columns, image, Window{g},
           whole(g.kernel_size()), whole(g.out_size()));
}
void to_image(Gpu& gpu, const WindowGeometry& g, const Reals& columns, std::int64_t channels, const Reals& image) {
  gpu.each("columns_to_image", whole(channels * g.in_size()), image, columns, Window{g}, whole(g.kernel_size()),
           whole(g.out_size()));
}

std::vector<std::int64_t> spatial(const Shape& w) { return {w.begin() + 2, w.end()}; }

void add_channel_bias(Gpu& gpu, const Array& y, const Array& bias) {
  std::vector<std::int64_t> strides(y.rank(), 0);
  strides[1] = 1;
  gpu.each("Add_f", y.size(), y.data, y.data, bias.data,
           strides_over(*y.shape, broadcast_strides(*y.shape, *y.shape), strides));
}
void channel_bias_d(Gpu& gpu, const Array& dy, const Array& to) {
  Shape kept(dy.rank(), 1);
  kept[1] = dy.dim(1);
  gpu.sum_to_shape(dy.data, *dy.shape, {to.data, &kept});
}

/// The convolution as cuDNN takes it; nothing without cuDNN, for volumes, or for mixed types.
std::optional<ImageConvolution> for_dnn(Gpu& gpu, const WindowGeometry& g, const Shape& w, std::int64_t groups,
                                        std::initializer_list<Reals> arrays) {
  if (!gpu.has_dnn() || w.size() > 4) return std::nullopt;
  const bool short_ones = arrays.begin()->is_short != 0;
  for (const Reals& each : arrays)
    if ((each.is_short != 0) != short_ones) return std::nullopt;
  const auto small = [](std::int64_t x) { return static_cast<int>(x); };
  return ImageConvolution{.n = small(g.batch),
                          .c = small(g.channels),
                          .h = small(g.in[1]),
                          .w = small(g.in[2]),
                          .k = small(w[0]),
                          .r = small(g.kernel[1]),
                          .s = small(g.kernel[2]),
                          .out_h = small(g.out[1]),
                          .out_w = small(g.out[2]),
                          .pad_h = small(g.before[1]),
                          .pad_w = small(g.before[2]),
                          .stride_h = small(g.stride[1]),
                          .stride_w = small(g.stride[2]),
                          .dilation_h = small(g.dilation[1]),
                          .dilation_w = small(g.dilation[2]),
                          .groups = small(groups),
                          .short_ones = short_ones};
}

void conv(OpArrays& c, Gpu& gpu) {
  const Array &x = c.in[0], &w = c.in[1], &y = c.out[0];
  const WindowGeometry g{c.node, *x.shape, *y.shape, spatial(*w.shape)};
  const std::int64_t groups = c.node.integer("group", 1), in = x.dim(1) / groups, out = y.dim(1) / groups;
  const auto by_dnn = for_dnn(gpu, g, *w.shape, groups, {x.data, w.data, y.data});
  if (!by_dnn || !gpu.dnn()->forward(*by_dnn, x.data.at, w.data.at, y.data.at)) {
    const std::int64_t rows = in * g.kernel_size(), windows = g.out_size();
    const Reals columns = gpu.scratch(static_cast<std::size_t>(rows * windows), x.data);
    for (std::int64_t n = 0; n < g.batch; ++n)
      for (std::int64_t group = 0; group < groups; ++group) {
        to_columns(gpu, g, x.data + (n * x.dim(1) + group * in) * g.in_size(), in, columns);
        gpu.multiply(false, false, out, windows, rows, 1, w.data + group * out * rows, columns, 0,
                     y.data + (n * y.dim(1) + group * out) * windows);
      }
  }
  if (c.input(2)) add_channel_bias(gpu, y, c.in[2]);
}

/// The requested gradients by column matrices and matrix products.
void conv_d_by_columns(OpArrays& c, Gpu& gpu, const WindowGeometry& g, bool of_filter, bool of_data) {
  const Array& dy = c.dy[0];
  const Shape& x = c.value(c.node.inputs[0]).shape;
  const std::int64_t groups = c.node.integer("group", 1), in = x[1] / groups, out = dy.dim(1) / groups;
  const std::int64_t rows = in * g.kernel_size(), windows = g.out_size();
  const Reals columns = gpu.scratch(static_cast<std::size_t>(rows * windows), dy.data);
  if (of_filter) gpu.fill(c.dx[1].data, 0, c.dx[1].size());
  for (std::int64_t n = 0; n < g.batch; ++n)
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t at = (n * x[1] + group * in) * g.in_size();
      const Reals gradient = dy.data + (n * dy.dim(1) + group * out) * windows;
      if (of_filter) {
        to_columns(gpu, g, c.in[0].data + at, in, columns);
        gpu.multiply(false, true, out, rows, windows, 1, gradient, columns, 1, c.dx[1].data + group * out * rows);
      }
      if (of_data) {
        gpu.multiply(true, false, rows, windows, out, 1, c.in[1].data + group * out * rows, gradient, 0, columns);
        to_image(gpu, g, columns, in, c.dx[0].data + at);
      }
    }
}

void conv_d(OpArrays& c, Gpu& gpu) {
  const Array& dy = c.dy[0];
  const Shape &x = c.value(c.node.inputs[0]).shape, &w = c.value(c.node.inputs[1]).shape;
  const WindowGeometry g{c.node, x, *dy.shape, spatial(w)};
  bool of_filter = c.wants(1), of_data = c.wants(0);
  const std::int64_t groups = c.node.integer("group", 1);
  if (of_filter)
    if (const auto by_dnn = for_dnn(gpu, g, w, groups, {c.in[0].data, dy.data, c.dx[1].data}))
      of_filter = !gpu.dnn()->filter_gradient(*by_dnn, c.in[0].data.at, dy.data.at, c.dx[1].data.at);
  if (of_data)
    if (const auto by_dnn = for_dnn(gpu, g, w, groups, {c.in[1].data, dy.data, c.dx[0].data}))
      of_data = !gpu.dnn()->data_gradient(*by_dnn, c.in[1].data.at, dy.data.at, c.dx[0].data.at);
  if (of_filter || of_data) conv_d_by_columns(c, gpu, g, of_filter, of_data);
  if (c.wants(2)) channel_bias_d(gpu, dy, c.dx[2]);
}

/// Layout of the kernels' argument.
struct Pool {
  int in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
  Divisor in_x, in_y, in_plane, out_x, out_y, out_plane, strides[3];

  explicit Pool(const WindowGeometry& g)
      : in_x(whole(g.in[2])),
        in_y(whole(g.in[1])),
        in_plane(whole(g.in_size())),
        out_x(whole(g.out[2])),
        out_y(whole(g.out[1])),
        out_plane(whole(g.out_size())) {
    const auto small = [](std::int64_t x) { return static_cast<int>(x); };
    for (std::size_t d = 0; d < 3; ++d) {
      in[d] = small(g.in[d]), out[d] = small(g.out[d]), kernel[d] = small(g.kernel[d]), stride[d] = small(g.stride[d]);
      dilation[d] = small(g.dilation[d]), before[d] = small(g.before[d]), after[d] = small(g.after[d]);
      strides[d] = whole(g.stride[d]);
    }
  }
};

/// The pool as cuDNN takes it; nothing for dilated windows, volumes, mixed types or unsupported sizes.
std::optional<PoolShape> pool_for_dnn(const OpArrays& c, int mode, const Reals& a, const Reals& b) {
  const WindowGeometry g = pool_geometry(c);
  const std::int64_t images = g.batch * g.channels, most = images * std::max(g.in_size(), g.out_size());
  if (a.is_short != b.is_short || images * g.in_size() * g.out_size() == 0 || most > std::int64_t{1} << 30 ||
      c.value(c.node.inputs[0]).shape.size() > 4 || g.dilation != std::array<std::int64_t, 3>{1, 1, 1})
    return std::nullopt;
  const auto small = [](std::int64_t x) { return static_cast<int>(x); };
  return PoolShape{.mode = mode,
                   .n = small(g.batch),
                   .c = small(g.channels),
                   .h = small(g.in[1]),
                   .w = small(g.in[2]),
                   .r = small(g.kernel[1]),
                   .s = small(g.kernel[2]),
                   .out_h = small(g.out[1]),
                   .out_w = small(g.out[2]),
                   .pad_h = small(g.before[1]),
                   .pad_w = small(g.before[2]),
                   .stride_h = small(g.stride[1]),
                   .stride_w = small(g.stride[2]),
                   .short_ones = a.is_short != 0};
}
int average_mode(const OpArrays& c) {
  return c.node.integer("count_include_pad", 0) != 0 ? kDnnAveragePadded : kDnnAverageInside;
}

void max_pool(OpArrays& c, Gpu& gpu) {
  // Only our kernel writes the positions of the maxima, for the gradient or as an output.
  const Reals indices = c.out.size() > 1 ? c.out[1].data : Reals{};
  const auto shape = c.kept() || indices ? std::nullopt : pool_for_dnn(c, kDnnMaxPool, c.in[0].data, c.out[0].data);
  if (DnnPool* const dnn = shape ? gpu.dnn_pool() : nullptr;
      dnn && dnn->forward(*shape, c.in[0].data.at, c.out[0].data.at))
    return;
  gpu.each("max_pool", c.out[0].size(), c.out[0].data, indices, static_cast<void*>(c.kept()), c.in[0].data,
           Pool{pool_geometry(c)});
}
void max_pool_d(OpArrays& c, Gpu& gpu) {
  gpu.each("max_pool_d", c.dx[0].size(), c.dx[0].data, c.dy[0].data, static_cast<void*>(c.kept()),
           Pool{pool_geometry(c)});
}
void average_pool(OpArrays& c, Gpu& gpu) {
  const auto shape = pool_for_dnn(c, average_mode(c), c.in[0].data, c.out[0].data);
  if (DnnPool* const dnn = shape ? gpu.dnn_pool() : nullptr;
      dnn && dnn->forward(*shape, c.in[0].data.at, c.out[0].data.at))
    return;
  gpu.each("average_pool", c.out[0].size(), c.out[0].data, c.in[0].data, Pool{pool_geometry(c)},
           whole(c.node.integer("count_include_pad", 0)));
}
void average_pool_d(OpArrays& c, Gpu& gpu) {
  const auto shape = pool_for_dnn(c, average_mode(c), c.dy[0].data, c.dx[0].data);
  if (DnnPool* const dnn = shape ? gpu.dnn_pool() : nullptr;
      dnn && dnn->average_backward(*shape, c.dy[0].data.at, c.dx[0].data.at))
    return;
  gpu.each("average_pool_d", c.dx[0].size(), c.dx[0].data, c.dy[0].data, Pool{pool_geometry(c)},
           whole(c.node.integer("count_include_pad", 0)));
}

void lstm(OpArrays& c, Gpu& gpu) {
  const Lstm l{c};
  const std::int64_t h = l.hidden, cell = l.cell();
  Reals all{c.kept(), c.in[0].data.is_short != 0};
  if (!all) all = gpu.scratch(static_cast<std::size_t>(l.directions * l.steps * 7 * cell), c.in[0].data);
  float* sums = gpu.scratch(static_cast<std::size_t>(l.batch * 4 * h));
  for (std::int64_t d = 0; d < l.directions; ++d) {
    for (std::int64_t s = 0; s < l.steps; ++s) {
      const std::int64_t t = l.time(d, s);
      const Reals before_h = s > 0 ? l.kept(all, d, s - 1, 6) : c.input(5) ? c.in[5].data + d * cell : Reals{};
      const Reals before_c = s > 0 ? l.kept(all, d, s - 1, 4) : c.input(6) ? c.in[6].data + d * cell : Reals{};
      gpu.multiply(false, true, l.batch, 4 * h, l.inputs, 1, c.in[0].data + t * l.batch * l.inputs,
                   c.in[1].data + d * 4 * h * l.inputs, 0, sums);
      if (before_h) gpu.multiply(false, true, l.batch, 4 * h, h, 1, before_h, c.in[2].data + d * 4 * h * h, 1, sums);
      const Reals out = c.out[0] ? c.out[0].data + (t * l.directions + d) * cell : Reals{};
      gpu.each("lstm_cell", whole(cell), l.kept(all, d, s, 0), out, static_cast<const float*>(sums),
               c.input(3) ? c.in[3].data + d * 8 * h : Reals{}, before_c, whole(h));
    }
    const std::int64_t last = l.steps - 1;
    const auto count = static_cast<std::size_t>(cell);
    if (c.out.size() > 1 && c.out[1]) gpu.scale_add(c.out[1].data + d * cell, l.kept(all, d, last, 6), 1, 0, count);
    if (c.out.size() > 2 && c.out[2]) gpu.scale_add(c.out[2].data + d * cell, l.kept(all, d, last, 4), 1, 0, count);
  }
}

void lstm_d(OpArrays& c, Gpu& gpu) {
  const Lstm l{c};
  const std::int64_t h = l.hidden, cell = l.cell();
  const auto count = static_cast<std::size_t>(cell);
  const Reals all{c.kept(), c.in[1].data.is_short != 0};
  for (const Array& dx : c.dx)
    if (dx) gpu.fill(dx.data, 0, dx.size());
  const Reals sums = gpu.scratch(count * 4, c.in[1].data);
  float *dh = gpu.scratch(count), *dc = gpu.scratch(count);
  const auto gradient = [&](std::size_t i) { return i < c.dy.size() ? c.dy[i] : Array{}; };
  for (std::int64_t d = 0; d < l.directions; ++d) {
    gpu.fill(dh, 0, count), gpu.fill(dc, 0, count);
    if (gradient(1)) gpu.scale_add(dh, gradient(1).data + d * cell, 1, 0, count);
    if (gradient(2)) gpu.scale_add(dc, gradient(2).data + d * cell, 1, 0, count);
    for (std::int64_t s = l.steps; s-- > 0;) {
      const std::int64_t t = l.time(d, s);
      const Reals before_h = s > 0 ? l.kept(all, d, s - 1, 6) : c.input(5) ? c.in[5].data + d * cell : Reals{};
      const Reals before_c = s > 0 ? l.kept(all, d, s - 1, 4) : c.input(6) ? c.in[6].data + d * cell : Reals{};
      const Reals dy = gradient(0) ? gradient(0).data + (t * l.directions + d) * cell : Reals{};
      gpu.each("lstm_cell_d", whole(cell), sums, dc, static_cast<const float*>(dh), dy, l.kept(all, d, s, 0), before_c,
               whole(h));
      const Reals w = c.in[1].data + d * 4 * h * l.inputs, r = c.in[2].data + d * 4 * h * h;
      if (c.wants(0))
        gpu.multiply(false, false, l.batch, l.inputs, 4 * h, 1, sums, w, 1, c.dx[0].data + t * l.batch * l.inputs);
      if (c.wants(1))
        gpu.multiply(true, false, 4 * h, l.inputs, l.batch, 1, sums, c.in[0].data + t * l.batch * l.inputs, 1,
                     c.dx[1].data + d * 4 * h * l.inputs);
      if (c.wants(2) && before_h)
        gpu.multiply(true, false, 4 * h, h, l.batch, 1, sums, before_h, 1, c.dx[2].data + d * 4 * h * h);
      if (c.wants(3)) {
        float* column = gpu.scratch(static_cast<std::size_t>(4 * h));
        const Shape large{l.batch, 4 * h}, small{1, 4 * h};
        gpu.sum_to_shape(sums, large, {column, &small});
        for (const std::int64_t half : {std::int64_t{0}, std::int64_t{1}})
          gpu.scale_add(c.dx[3].data + (d * 2 + half) * 4 * h, column, 1, 1, static_cast<std::size_t>(4 * h));
      }
      gpu.multiply(false, false, l.batch, h, 4 * h, 1, sums, r, 0, dh);
    }
    if (c.wants(5)) gpu.scale_add(c.dx[5].data + d * cell, dh, 1, 0, count);
    if (c.wants(6)) gpu.scale_add(c.dx[6].data + d * cell, dc, 1, 0, count);
  }
}

constexpr GpuOp kProducts[] = {
    {"Linear", linear, linear_d},
    {"Gemm", gemm, gemm_d},
    {"MatMul", matmul, matmul_d},
    {"Conv", conv, conv_d},
    {"MaxPool", max_pool, max_pool_d},
    {"AveragePool", average_pool, average_pool_d},
    {"LSTM", lstm, lstm_d},
};

}  // namespace

std::span<const GpuOp> product_gpu_ops() { return kProducts; }

}  // namespace trainyard::cuda
