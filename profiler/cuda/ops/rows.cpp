#include <algorithm>

#include "profiler/cpu/broadcast.hpp"
#include "profiler/cuda/ops/gpu_kernels.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cuda {
namespace {

using cpu::broadcast_strides;

std::uint64_t whole(std::int64_t x) { return static_cast<std::uint64_t>(x); }

/// `count` lines of `length` elements, `step` apart.
struct Lines {
  std::uint64_t count = 1, length = 1, step = 1;

  Lines(const Shape& shape, std::size_t axis) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i == axis) length = whole(shape[i]);
      if (i > axis) step *= whole(shape[i]);
      if (i != axis) count *= whole(shape[i]);
    }
  }
};

Lines softmax_lines(const OpArrays& c) {
  const Shape& shape = c.value(c.node.inputs[0]).shape;
  return {shape, OpArrays::axis(c.node.integer("axis", -1), shape.size())};
}
std::uint64_t logs(const OpArrays& c) { return c.node.type == "LogSoftmax" ? 1 : 0; }

void softmax(OpArrays& c, Gpu& gpu) {
  const Lines l = softmax_lines(c);
  gpu.rows("softmax", l.count, c.out[0].data, c.in[0].data, l.length, l.step, logs(c));
}
void softmax_d(OpArrays& c, Gpu& gpu) {
  const Lines l = softmax_lines(c);
  gpu.rows("softmax_d", l.count, c.dx[0].data, c.dy[0].data, c.out[0].data, l.length, l.step, logs(c));
}

/// Which dimension counts classes, and how losses are joined: as on the CPU.
struct Loss {
  Lines lines;
  std::string reduction;

  explicit Loss(const OpArrays& c)
      : lines(c.value(c.node.inputs[0]).shape, axis(c)), reduction(c.node.text("reduction", "mean")) {}
  static std::size_t axis(const OpArrays& c) {
    const std::size_t rank = c.value(c.node.inputs[0]).shape.size();
    return c.node.type != "SoftmaxCrossEntropy" || rank == 4 ? std::min<std::size_t>(1, rank - 1) : rank - 1;
  }
  bool each() const { return reduction != "mean" && reduction != "sum"; }
  float share() const { return reduction == "mean" ? 1 / static_cast<float>(lines.count) : 1.0F; }
};

void cross_entropy(OpArrays& c, Gpu& gpu) {
  const Loss loss{c};
  float* log = c.kept() ? c.kept() : gpu.scratch(c.in[0].size());  // 32 bits, as the graph has them
  gpu.rows("softmax", loss.lines.count, log, c.in[0].data, loss.lines.length, loss.lines.step, std::uint64_t{1});
  if (c.out.size() > 1 && c.out[1]) gpu.scale_add(c.out[1].data, log, 1, 0, c.out[1].size());
  const Reals lines = loss.each() ? c.out[0].data : Reals{gpu.scratch(loss.lines.count)};
  gpu.each("pick_labels", loss.lines.count, lines, log, c.in[1].data, loss.lines.length, loss.lines.step);
  if (loss.each()) return;
  const Shape many{static_cast<std::int64_t>(loss.lines.count)}, one{1};
  gpu.sum_to_shape(lines, many, {c.out[0].data, &one});
  if (loss.share() != 1) gpu.scale_add(c.out[0].data, c.out[0].data, loss.share(), 0, 1);
}
void cross_entropy_d(OpArrays& c, Gpu& gpu) {
  const Loss loss{c};
  gpu.each("cross_entropy_d", c.dx[0].size(), c.dx[0].data, c.dy[0].data, c.kept(), c.in[1].data, loss.lines.length,
           loss.lines.step, loss.share(), std::uint64_t{loss.each() ? 1U : 0U});
}

/// As the kernels take it; the same sets as cpu/normalization.cpp.
struct Sets {
  std::uint64_t sets = 1, runs = 1, length = 1, step = 0, between = 0, channels = 1, per_channel = 1;

  explicit Sets(const OpArrays& c) {
    const Shape& x = c.value(c.node.inputs[0]).shape;
    const std::uint64_t size = whole(elements(x));
    const std::string& type = c.node.type;
    if (type == "BatchNormalization" || type == "InstanceNormalization" || type == "GroupNormalization") {
      const std::uint64_t batch = whole(x[0]);
      channels = x.size() > 1 ? whole(x[1]) : 1;
      const std::uint64_t plane = size / (batch * channels);
      per_channel = plane;
      if (type == "BatchNormalization") {
        sets = channels, runs = batch, length = plane, step = channels * plane, between = plane;
        return;
      }
      const std::uint64_t groups = type == "InstanceNormalization" ? channels : whole(c.node.integer("num_groups", 1));
      sets = batch * groups, length = plane * channels / groups, between = length;
      const ValueId scale = input_at(c.node, 1);
      if (!scale.is_none() && whole(element_count(c.value(scale))) == groups) channels = groups, per_channel = length;
      return;
    }
    length = 1;
    for (std::size_t i = OpArrays::axis(c.node.integer("axis", -1), x.size()); i < x.size(); ++i) length *= whole(x[i]);
    sets = size / length, between = length, channels = length;
  }
};

float epsilon(const OpArrays& c) { return static_cast<float>(c.node.real("epsilon", 1e-5)); }
std::uint64_t centred(const OpArrays& c) {
  return c.node.type != "RMSNormalization" && c.node.type != "SimplifiedLayerNormalization" ? 1 : 0;
}
/// Statistics that are given: of a batch norm that does not use its batch's.
bool fixed(const OpArrays& c) { return c.node.type == "BatchNormalization" && !uses_batch_statistics(c.model, c.node); }

void normalize(OpArrays& c, Gpu& gpu) {
  const Sets s{c};
  const bool given = fixed(c);
  gpu.rows("normalize", s.sets, c.out[0].data, c.kept(), c.in[0].data, c.input(1).data, c.input(2).data,
           given ? c.in[3].data : Reals{}, given ? c.in[4].data : Reals{}, s, epsilon(c), centred(c));
}
void normalize_d(OpArrays& c, Gpu& gpu) {
  const Sets s{c};
  const bool given = fixed(c);
  const Reals mean = given ? c.in[3].data : Reals{}, variance = given ? c.in[4].data : Reals{};
  float* stats = c.kept();
  const bool stored = stats && (c.node.type == "BatchNormalization" || c.node.type == "LayerNormalization");
  if (!given && !stored) {  // they are found again
    stats = gpu.scratch(2 * s.sets);
    float* ignored = gpu.scratch(c.in[0].size());
    const Reals none;
    gpu.rows("normalize", s.sets, ignored, stats, c.in[0].data, none, none, none, none, s, epsilon(c), centred(c));
  }
  Reals x = c.input(0).data;
  if (!x && c.wants(0)) {  // statistics that are given: x plays no part in its own gradient
    float* zero = gpu.scratch(c.dx[0].size());
    gpu.fill(zero, 0, c.dx[0].size());
    x = zero;
  }
  if (c.wants(0))
    gpu.rows("normalize_d", s.sets, c.dx[0].data, c.dy[0].data, x, c.input(1).data, stats, mean, variance, s,
             epsilon(c), centred(c));
  if (!c.wants(1) && !c.wants(2)) return;
  if (!x) {
    float* zero = gpu.scratch(c.dy[0].size());
    gpu.fill(zero, 0, c.dy[0].size());
    x = zero;
  }
  gpu.channels("normalize_gain_d", s.channels, c.wants(1) ? c.dx[1].data : Reals{}, c.wants(2) ? c.dx[2].data : Reals{},
               c.dy[0].data, x, stats, mean, variance, s, epsilon(c));
}

enum Kind : std::uint64_t { sum, mean, largest, smallest, product, squares };

Kind kind_of(const std::string& type) {
  return type == "ReduceMean" || type == "GlobalAveragePool" ? mean
         : type == "ReduceMax" || type == "GlobalMaxPool"    ? largest
         : type == "ReduceMin"                               ? smallest
         : type == "ReduceSumSquare"                         ? squares
                                                             : sum;
}

/// The shape of the result with its reduced dimensions kept as 1.
Shape kept_shape(const OpArrays& c) {
  Shape shape = c.value(c.node.inputs[0]).shape;
  if (c.node.type.starts_with("Global")) {
    std::fill(shape.begin() + 2, shape.end(), 1);
    return shape;
  }
  std::vector<std::int64_t> axes = c.node.integers("axes");
  if (const ValueId id = input_at(c.node, 1); axes.empty() && !id.is_none()) axes = c.value(id).integers;
  if (axes.empty()) {
    if (c.node.integer("noop_with_empty_axes", 0) == 0) std::fill(shape.begin(), shape.end(), 1);
    return shape;
  }
  for (const std::int64_t axis : axes) shape[OpArrays::axis(axis, shape.size())] = 1;
  return shape;
}

void reduce(OpArrays& c, Gpu& gpu) {
  const Shape &in = c.value(c.node.inputs[0]).shape, out = kept_shape(c);
  Shape kept, over;
  std::vector<std::int64_t> kept_strides, over_strides;
  std::int64_t step = 1;
  for (std::size_t i = in.size(); i-- > 0;) {
    const bool is_over = out[i] == 1;
    (is_over ? over : kept).insert((is_over ? over : kept).begin(), in[i]);
    (is_over ? over_strides : kept_strides).insert((is_over ? over_strides : kept_strides).begin(), step);
    step *= in[i];
  }
  gpu.each("reduce", c.out[0].size(), c.out[0].data, c.in[0].data, strides_over(kept, kept_strides),
           strides_over(over, over_strides), whole(elements(over)), static_cast<std::uint64_t>(kind_of(c.node.type)));
}
void reduce_d(OpArrays& c, Gpu& gpu) {
  const Shape &in = c.value(c.node.inputs[0]).shape, out = kept_shape(c);
  const auto many = static_cast<float>(elements(in)) / static_cast<float>(std::max<std::int64_t>(1, elements(out)));
  gpu.each("reduce_d", c.dx[0].size(), c.dx[0].data, c.dy[0].data, c.input(0).data, c.out[0].data,
           strides_over(in, broadcast_strides(in, in), broadcast_strides(out, in)),
           static_cast<std::uint64_t>(kind_of(c.node.type)), 1 / many);
}

/// How a Gather counts: outer x extent x inner, `count` indices.
struct Table {
  std::uint64_t outer = 1, extent, inner = 1, count;

  explicit Table(const OpArrays& c) {
    const Shape& table = c.value(c.node.inputs[0]).shape;
    const std::size_t axis = OpArrays::axis(c.node.integer("axis", 0), table.size());
    for (std::size_t i = 0; i < axis; ++i) outer *= whole(table[i]);
    for (std::size_t i = axis + 1; i < table.size(); ++i) inner *= whole(table[i]);
    extent = whole(table[axis]), count = c.in[1].size();
  }
};
void gather(OpArrays& c, Gpu& gpu) {
  const Table t{c};
  gpu.each("gather", c.out[0].size(), c.out[0].data, c.in[0].data, c.in[1].data, t.extent, t.count, t.inner);
}
void gather_d(OpArrays& c, Gpu& gpu) {
  const Table t{c};
  gpu.each("gather_d", t.outer * t.inner, c.dx[0].data, c.dy[0].data, c.in[1].data, t.extent, t.count, t.inner);
}

constexpr GpuOp kRows[] = {
    {"Softmax", softmax, softmax_d},
    {"LogSoftmax", softmax, softmax_d},
    {"SoftmaxCrossEntropy", cross_entropy, cross_entropy_d},
    {"SoftmaxCrossEntropyLoss", cross_entropy, cross_entropy_d},
    {"BatchNormalization", normalize, normalize_d},
    {"LayerNormalization", normalize, normalize_d},
    {"InstanceNormalization", normalize, normalize_d},
    {"GroupNormalization", normalize, normalize_d},
    {"RMSNormalization", normalize, normalize_d},
    {"SimplifiedLayerNormalization", normalize, normalize_d},
    {"ReduceSum", reduce, reduce_d},
    {"ReduceMean", reduce, reduce_d},
    {"ReduceMax", reduce, reduce_d},
    {"ReduceMin", reduce, reduce_d},
    {"ReduceSumSquare", reduce, reduce_d},
    {"GlobalAveragePool", reduce, reduce_d},
    {"GlobalMaxPool", reduce, reduce_d},
    {"Gather", gather, gather_d},
};

}  // namespace

std::span<const GpuOp> row_gpu_ops() { return kRows; }

}  // namespace trainyard::cuda
