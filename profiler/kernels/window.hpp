#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "profiler/kernels/arrays.hpp"

namespace trainyard::kernels {

/// Geometry of a window that slides over up to three spatial dimensions; missing ones come first, with size 1.
struct WindowGeometry {
  std::int64_t batch = 1, channels = 1;
  std::array<std::int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1},
      before{0, 0, 0}, after{0, 0, 0};

  std::int64_t in_size() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_size() const { return out[0] * out[1] * out[2]; }
  std::int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }

  /// `x`: shape of the windowed array; `y`: shape with an element per window; `kernel_shape`: spatial.
  WindowGeometry(const Node& node, const Shape& x, const Shape& y, const std::vector<std::int64_t>& kernel_shape)
      : batch(x[0]), channels(x[1]) {
    const std::size_t spatial = x.size() - 2, first = 3 - std::min<std::size_t>(3, spatial);
    const auto strides = node.integers("strides"), dilations = node.integers("dilations"), pads = node.integers("pads");
    const std::string mode = node.text("auto_pad", "NOTSET");
    for (std::size_t i = 0; i < spatial && i < 3; ++i) {
      const std::size_t d = first + i;
      in[d] = x[i + 2];
      out[d] = y[i + 2];
      kernel[d] = kernel_shape[i];
      if (!strides.empty()) stride[d] = strides[i];
      if (!dilations.empty()) dilation[d] = dilations[i];
      const std::int64_t reach = (kernel[d] - 1) * dilation[d] + 1;
      if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
        const std::int64_t both = std::max<std::int64_t>(0, (out[d] - 1) * stride[d] + reach - in[d]);
        before[d] = mode == "SAME_UPPER" ? both / 2 : both - both / 2;
        after[d] = both - before[d];
      } else if (mode != "VALID" && !pads.empty()) {
        before[d] = pads[i];
        after[d] = pads[spatial + i];
      }
    }
  }

  /// Calls f(index in the window, index in the plane or -1 in the padding) over the window of output (z, y, x).
  template <class F>
  void each_in_window(std::int64_t z, std::int64_t y, std::int64_t x, F&& f) const {
    std::int64_t k = 0;
    for (std::int64_t a = 0; a < kernel[0]; ++a) {
      const std::int64_t iz = z * stride[0] - before[0] + a * dilation[0];
      for (std::int64_t b = 0; b < kernel[1]; ++b) {
        const std::int64_t iy = y * stride[1] - before[1] + b * dilation[1];
        for (std::int64_t c = 0; c < kernel[2]; ++c, ++k) {
          const std::int64_t ix = x * stride[2] - before[2] + c * dilation[2];
          const bool inside = iz >= 0 && iz < in[0] && iy >= 0 && iy < in[1] && ix >= 0 && ix < in[2];
          f(k, inside ? (iz * in[1] + iy) * in[2] + ix : -1);
        }
      }
    }
  }
};

/// Geometry of a pool's windows.
template <class Array>
WindowGeometry pool_geometry(const OpArraysOf<Array>& c) {
  return {c.node, c.value(c.node.inputs[0]).shape, c.value(c.node.outputs[0]).shape, c.node.integers("kernel_shape")};
}

}  // namespace trainyard::kernels
