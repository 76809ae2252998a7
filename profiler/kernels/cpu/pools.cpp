#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/window.hpp"

namespace trainyard::cpu {
namespace {

template <class F>
void each_window(const WindowGeometry& g, F&& f) {
  std::int64_t o = 0;
  for (std::int64_t plane = 0; plane < g.batch * g.channels; ++plane)
    for (std::int64_t z = 0; z < g.out[0]; ++z)
      for (std::int64_t y = 0; y < g.out[1]; ++y)
        for (std::int64_t x = 0; x < g.out[2]; ++x) f(o++, plane * g.in_size(), z, y, x);
}

/// Keeps the position of each maximum in its plane, in 8 bytes as on a GPU, where the gradient may be computed.
void max_pool(OpArrays& c) {
  const WindowGeometry g = pool_geometry(c);
  auto* places = reinterpret_cast<std::int64_t*>(c.kept());
  each_window(g, [&](std::int64_t o, std::int64_t plane, std::int64_t z, std::int64_t y, std::int64_t x) {
    float best = -std::numeric_limits<float>::infinity();
    std::int64_t where = 0;
    g.each_in_window(z, y, x, [&](std::int64_t, std::int64_t at) {
      if (at >= 0 && c.in[0].data[plane + at] > best) best = c.in[0].data[plane + at], where = at;
    });
    c.out[0].data[o] = best;
    if (places) places[o] = where;
    if (c.out.size() > 1 && c.out[1]) c.out[1].data[o] = static_cast<float>(plane + where);
  });
}

void max_pool_backward(OpArrays& c) {
  const auto* places = reinterpret_cast<const std::int64_t*>(c.kept());
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  const Shape& to = *c.dy[0].shape;
  const auto planes = static_cast<std::size_t>(to[0] * to[1]);
  const std::size_t in = c.dx[0].size() / std::max<std::size_t>(1, planes),
                    out = c.dy[0].size() / std::max<std::size_t>(1, planes);
  for (std::size_t plane = 0, i = 0; plane < planes; ++plane)
    for (std::size_t k = 0; k < out; ++k, ++i)
      c.dx[0].data[plane * in + static_cast<std::size_t>(places[i])] += c.dy[0].data[i];
}

/// Divisor of an average pool: the number of elements of a window that count.
std::int64_t divisor(const WindowGeometry& g, bool count_padding, std::int64_t z, std::int64_t y, std::int64_t x) {
  const std::array<std::int64_t, 3> at{z, y, x};
  std::int64_t count = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    std::int64_t here = 0;
    for (std::int64_t k = 0; k < g.kernel[d]; ++k) {
      const std::int64_t i = at[d] * g.stride[d] - g.before[d] + k * g.dilation[d];
      if (count_padding ? i < g.in[d] + g.after[d] : i >= 0 && i < g.in[d]) ++here;
    }
    count *= here;
  }
  return std::max<std::int64_t>(1, count);
}

void average_pool(OpArrays& c) {
  const WindowGeometry g = pool_geometry(c);
  const bool padding = c.node.integer("count_include_pad", 0) != 0;
  each_window(g, [&](std::int64_t o, std::int64_t plane, std::int64_t z, std::int64_t y, std::int64_t x) {
    float sum = 0;
    g.each_in_window(z, y, x, [&](std::int64_t, std::int64_t at) {
      if (at >= 0) sum += c.in[0].data[plane + at];
    });
    c.out[0].data[o] = sum / static_cast<float>(divisor(g, padding, z, y, x));
  });
}

void average_pool_backward(OpArrays& c) {
  const WindowGeometry g = pool_geometry(c);
  const bool padding = c.node.integer("count_include_pad", 0) != 0;
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_window(g, [&](std::int64_t o, std::int64_t plane, std::int64_t z, std::int64_t y, std::int64_t x) {
    const float share = c.dy[0].data[o] / static_cast<float>(divisor(g, padding, z, y, x));
    g.each_in_window(z, y, x, [&](std::int64_t, std::int64_t at) {
      if (at >= 0) c.dx[0].data[plane + at] += share;
    });
  });
}

void lp_pool(OpArrays& c) {
  const WindowGeometry g = pool_geometry(c);
  const auto p = static_cast<float>(c.node.integer("p", 2));
  each_window(g, [&](std::int64_t o, std::int64_t plane, std::int64_t z, std::int64_t y, std::int64_t x) {
    float sum = 0;
    g.each_in_window(z, y, x, [&](std::int64_t, std::int64_t at) {
      if (at >= 0) sum += std::pow(std::fabs(c.in[0].data[plane + at]), p);
    });
    c.out[0].data[o] = std::pow(sum, 1 / p);
  });
}

void lp_pool_backward(OpArrays& c) {
  const WindowGeometry g = pool_geometry(c);
  const auto p = static_cast<float>(c.node.integer("p", 2));
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_window(g, [&](std::int64_t o, std::int64_t plane, std::int64_t z, std::int64_t y, std::int64_t x) {
    float sum = 0;
    g.each_in_window(z, y, x, [&](std::int64_t, std::int64_t at) {
      if (at >= 0) sum += std::pow(std::fabs(c.in[0].data[plane + at]), p);
    });
    const float scale = sum == 0 ? 0 : c.dy[0].data[o] * std::pow(sum, 1 / p - 1);
    g.each_in_window(z, y, x, [&](std::int64_t, std::int64_t at) {
      if (at < 0) return;
      const float v = c.in[0].data[plane + at];
      c.dx[0].data[plane + at] += scale * std::pow(std::fabs(v), p - 1) * (v < 0 ? -1.0F : 1.0F);
    });
  });
}

std::size_t plane_size(const OpArrays& c) {
  const Shape& x = c.value(c.node.inputs[0]).shape;
  return static_cast<std::size_t>(elements(x) / std::max<std::int64_t>(1, x[0] * x[1]));
}

void global_average(OpArrays& c) {
  const std::size_t plane = plane_size(c);
  for (std::size_t o = 0; o < c.out[0].size(); ++o) {
    float sum = 0;
    for (std::size_t i = 0; i < plane; ++i) sum += c.in[0].data[o * plane + i];
    c.out[0].data[o] = sum / static_cast<float>(plane);
  }
}

void global_average_backward(OpArrays& c) {
  const std::size_t plane = plane_size(c);
  for (std::size_t o = 0; o < c.dy[0].size(); ++o)
    std::fill(c.dx[0].data + o * plane, c.dx[0].data + (o + 1) * plane, c.dy[0].data[o] / static_cast<float>(plane));
}

void global_max(OpArrays& c) {
  const std::size_t plane = plane_size(c);
  for (std::size_t o = 0; o < c.out[0].size(); ++o)
    c.out[0].data[o] = *std::max_element(c.in[0].data + o * plane, c.in[0].data + (o + 1) * plane);
}

void global_max_backward(OpArrays& c) {
  const std::size_t plane = plane_size(c);
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  for (std::size_t o = 0; o < c.dy[0].size(); ++o) {
    const float* first = c.in[0].data + o * plane;
    const auto where = static_cast<std::size_t>(std::max_element(first, first + plane) - first);
    c.dx[0].data[o * plane + where] = c.dy[0].data[o];
  }
}

constexpr OpKernels kPools[] = {
    {"MaxPool", max_pool, max_pool_backward},
    {"AveragePool", average_pool, average_pool_backward},
    {"LpPool", lp_pool, lp_pool_backward},
    {"GlobalAveragePool", global_average, global_average_backward},
    {"GlobalMaxPool", global_max, global_max_backward},
};

}  // namespace

std::span<const OpKernels> pool_kernels() { return kPools; }

}  // namespace trainyard::cpu
