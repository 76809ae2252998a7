#include <algorithm>

#include "profiler/kernels/cpu/broadcast.hpp"
#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/views.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cpu {
namespace {

/// Calls f(input, its first element, first element of the output, number of elements) for each run of an input along
/// the axis.
template <class F>
void each_run(const Shape& out, const std::vector<const Shape*>& parts, std::size_t axis, F&& f) {
  const Lines lines{out, axis};
  std::size_t at = 0;
  for (std::size_t o = 0; o < lines.outer; ++o)
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::size_t run = static_cast<std::size_t>((*parts[p])[axis]) * lines.step;
      f(p, o * run, at, run);
      at += run;
    }
}

void concat(OpArrays& c) {
  const Shape& out = *c.out[0].shape;
  std::vector<const Shape*> parts;
  for (const Array& in : c.in) parts.push_back(in.shape);
  each_run(out, parts, axis_at(c.node.integer("axis", 0), out.size()),
           [&](std::size_t p, std::size_t from, std::size_t to, std::size_t run) {
             std::copy_n(c.in[p].data + from, run, c.out[0].data + to);
           });
}

struct Padding {
  std::vector<std::int64_t> before;
  std::string mode;
  float value = 0;
};

Padding padding(const OpArrays& c, std::size_t rank) {
  return {.before = pads_before(c.model, c.node, rank),
          .mode = c.node.text("mode", "constant"),
          .value = c.input(2) ? c.in[2].data[0] : static_cast<float>(c.node.real("value", 0))};
}

/// Index within n elements to which an outside index is reflected, without repeating the edge, at any distance.
std::int64_t reflected(std::int64_t i, std::int64_t n) {
  if (n == 1) return 0;
  const std::int64_t period = 2 * (n - 1), at = (i % period + period) % period;
  return at < n ? at : period - at;
}

/// Calls f(index in the padded array, index in the inner one or -1) for each element of the padded array.
template <class F>
void each_padded(const Shape& outer, const Shape& inner, const Padding& p, F&& f) {
  const std::size_t rank = outer.size();
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t o = 0, n = elements(outer); o < n; ++o) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      std::int64_t i = index[d] - p.before[d];
      if (i < 0 || i >= inner[d]) {
        if (p.mode == "constant") {
          from = -1;
          break;
        }
        if (p.mode == "edge")
          i = std::clamp<std::int64_t>(i, 0, inner[d] - 1);
        else if (p.mode == "wrap")
          i = (i % inner[d] + inner[d]) % inner[d];
        else
          i = reflected(i, inner[d]);
      }
      from = from * inner[d] + i;
    }
    f(o, from);
    for (std::size_t d = rank; d-- > 0;) {
      if (++index[d] < outer[d]) break;
      index[d] = 0;
    }
  }
}

void pad(OpArrays& c) {
  const Padding p = padding(c, c.out[0].rank());
  each_padded(*c.out[0].shape, *c.in[0].shape, p,
              [&](std::int64_t to, std::int64_t from) { c.out[0].data[to] = from < 0 ? p.value : c.in[0].data[from]; });
}

void pad_backward(OpArrays& c) {
  const Padding p = padding(c, c.dy[0].rank());
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_padded(*c.dy[0].shape, *c.dx[0].shape, p, [&](std::int64_t to, std::int64_t from) {
    if (from >= 0) c.dx[0].data[from] += c.dy[0].data[to];
  });
}

/// Calls f(output index, input index) for each element of a Tile: padding by wrapping, only at the end.
template <class F>
void each_tiled(const OpArrays& c, F&& f) {
  const Shape& in = c.value(c.node.inputs[0]).shape;
  const Padding behind{.before = std::vector<std::int64_t>(in.size(), 0), .mode = "wrap"};
  each_padded(c.value(c.node.outputs[0]).shape, in, behind, f);
}

void tile(OpArrays& c) {
  each_tiled(c, [&](std::int64_t to, std::int64_t from) { c.out[0].data[to] = c.in[0].data[from]; });
}

void tile_backward(OpArrays& c) {
  std::fill(c.dx[0].data, c.dx[0].data + c.dx[0].size(), 0.0F);
  each_tiled(c, [&](std::int64_t to, std::int64_t from) { c.dx[0].data[from] += c.dy[0].data[to]; });
}

/// DepthToSpace [N, b b C, H, W] -> [N, C, b H, b W], and back: calls f(index in the deep array, index in the wide
/// one).
template <class F>
void each_moved(const Node& node, const Shape& deep, F&& f) {
  const std::int64_t b = node.integer("blocksize", 1), channels = deep[1] / (b * b), height = deep[2], width = deep[3];
  const bool columns_last = node.type == "DepthToSpace" && node.text("mode", "DCR") == "CRD";
  std::int64_t at = 0;
  for (std::int64_t n = 0; n < deep[0]; ++n)
    for (std::int64_t k = 0; k < deep[1]; ++k)
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
          const std::int64_t channel = columns_last ? k / (b * b) : k % channels;
          const std::int64_t block = columns_last ? k % (b * b) : k / channels;
          const std::int64_t wide =
              ((n * channels + channel) * height * b + y * b + block / b) * width * b + x * b + block % b;
          f(at++, wide);
        }
}

void depth_to_space(OpArrays& c) {
  each_moved(c.node, *c.in[0].shape, [&](auto deep, auto wide) { c.out[0].data[wide] = c.in[0].data[deep]; });
}
void depth_to_space_backward(OpArrays& c) {
  each_moved(c.node, *c.dx[0].shape, [&](auto deep, auto wide) { c.dx[0].data[deep] = c.dy[0].data[wide]; });
}
void space_to_depth(OpArrays& c) {
  each_moved(c.node, *c.out[0].shape, [&](auto deep, auto wide) { c.out[0].data[deep] = c.in[0].data[wide]; });
}
void space_to_depth_backward(OpArrays& c) {
  each_moved(c.node, *c.dy[0].shape, [&](auto deep, auto wide) { c.dx[0].data[wide] = c.dy[0].data[deep]; });
}

void triangle(const OpArrays& c, const float* from, float* to, const Shape& shape) {
  const ValueId by = input_at(c.node, 1);
  const std::int64_t k = by.is_none() || c.value(by).integers.empty() ? 0 : c.value(by).integers[0];
  const bool upper = c.node.integer("upper", 1) != 0;
  const std::int64_t rows = shape[shape.size() - 2], columns = shape.back();
  for (std::int64_t i = 0, n = elements(shape); i < n; ++i) {
    const std::int64_t row = i / columns % rows, column = i % columns;
    to[i] = (upper ? column - row >= k : column - row <= k) ? from[i] : 0;
  }
}
void trilu(OpArrays& c) { triangle(c, c.in[0].data, c.out[0].data, *c.out[0].shape); }
void trilu_backward(OpArrays& c) { triangle(c, c.dy[0].data, c.dx[0].data, *c.dx[0].shape); }

constexpr OpKernels kLayout[] = {
    {"Concat", concat, nullptr},  // its gradients are views
    {"Pad", pad, pad_backward},
    {"Tile", tile, tile_backward},
    {"DepthToSpace", depth_to_space, depth_to_space_backward},
    {"SpaceToDepth", space_to_depth, space_to_depth_backward},
    {"Trilu", trilu, trilu_backward},
};

}  // namespace

std::span<const OpKernels> layout_kernels() { return kLayout; }

}  // namespace trainyard::cpu
