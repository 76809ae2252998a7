#include <algorithm>
#include <initializer_list>
#include <optional>

#include "profiler/kernels/cuda/gpu_kernels.hpp"
#include "profiler/kernels/normalization.hpp"
#include "profiler/kernels/strides.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cuda {
namespace {

std::uint64_t logs(const OpArrays& c) { return c.node.type == "LogSoftmax" ? 1 : 0; }

/// The softmax as cuDNN takes it; nothing for mixed types or unsupported sizes.
std::optional<SoftmaxShape> softmax_for_dnn(const OpArrays& c, const Lines& l, std::initializer_list<Reals> arrays) {
  const std::size_t count = l.count() * l.length;
  if (count == 0 || count > std::size_t{1} << 30) return std::nullopt;
  const bool short_ones = arrays.begin()->is_short != 0;
  for (const Reals& each : arrays)
    if ((each.is_short != 0) != short_ones) return std::nullopt;
  return SoftmaxShape{.n = static_cast<int>(l.outer),
                      .c = static_cast<int>(l.length),
                      .plane = static_cast<int>(l.step),
                      .logs = logs(c) != 0,
                      .short_ones = short_ones};
}

void softmax(OpArrays& c, Gpu& gpu) {
  const Lines l = lines_along_axis(c, -1);
  const auto shape = softmax_for_dnn(c, l, {c.in[0].data, c.out[0].data});
  if (DnnSoftmax* const dnn = shape ? gpu.dnn_softmax() : nullptr;
      dnn && dnn->forward(*shape, c.in[0].data.at, c.out[0].data.at))
    return;
  gpu.rows("softmax", l.count(), c.out[0].data, c.in[0].data, l.length, l.step, logs(c));
}
void softmax_d(OpArrays& c, Gpu& gpu) {
  const Lines l = lines_along_axis(c, -1);
  const auto shape = softmax_for_dnn(c, l, {c.out[0].data, c.dy[0].data, c.dx[0].data});
  if (DnnSoftmax* const dnn = shape ? gpu.dnn_softmax() : nullptr;
      dnn && dnn->backward(*shape, c.out[0].data.at, c.dy[0].data.at, c.dx[0].data.at))
    return;
  gpu.rows("softmax_d", l.count(), c.dx[0].data, c.dy[0].data, c.out[0].data, l.length, l.step, logs(c));
}

/// Lines of classes, and the reduction of losses, as on the CPU.
struct Loss {
  Lines lines;
  std::string reduction;

  explicit Loss(const OpArrays& c) : lines(class_lines(c)), reduction(c.node.text("reduction", "mean")) {}
  bool each() const { return reduction != "mean" && reduction != "sum"; }
  float share() const { return reduction == "mean" ? 1 / static_cast<float>(lines.count()) : 1.0F; }
};

void cross_entropy(OpArrays& c, Gpu& gpu) {
  const Loss loss{c};
  float* log = c.kept() ? c.kept() : gpu.scratch(c.in[0].size());  // 32 bits, as in the graph
  gpu.rows("softmax", loss.lines.count(), log, c.in[0].data, loss.lines.length, loss.lines.step, std::uint64_t{1});
  if (c.out.size() > 1 && c.out[1]) gpu.scale_add(c.out[1].data, log, 1, 0, c.out[1].size());
  const Reals lines = loss.each() ? c.out[0].data : Reals{gpu.scratch(loss.lines.count())};
  gpu.each("pick_labels", loss.lines.count(), lines, log, c.in[1].data, loss.lines.length, loss.lines.step);
  if (loss.each()) return;
  const Shape many{static_cast<std::int64_t>(loss.lines.count())}, one{1};
  gpu.sum_to_shape(lines, many, {c.out[0].data, &one});
  if (loss.share() != 1) gpu.scale_add(c.out[0].data, c.out[0].data, loss.share(), 0, 1);
}
void cross_entropy_d(OpArrays& c, Gpu& gpu) {
  const Loss loss{c};
  gpu.each("cross_entropy_d", c.dx[0].size(), c.dx[0].data, c.dy[0].data, c.kept(), c.in[1].data,
           Divisor{loss.lines.length}, Divisor{loss.lines.step}, loss.share(), std::uint64_t{loss.each() ? 1U : 0U});
}

/// Layout of the kernels' argument.
struct GpuSets {
  std::uint64_t sets, runs, step, between;
  Divisor length, channels, per_channel, set;

  explicit GpuSets(const Sets& s)
      : sets(s.sets),
        runs(s.runs),
        step(s.step),
        between(s.between),
        length(s.length),
        channels(s.channels),
        per_channel(s.per_channel),
        set(s.between > 0 ? s.between : s.count()) {}
};

/// The batch norm as cuDNN takes it; nothing for other normalizations, given statistics, mixed types or unsupported
/// sizes.
std::optional<BatchNormShape> for_dnn(const OpArrays& c, const Sets& s, const Reals& a, const Reals& b) {
  if (c.node.type != "BatchNormalization" || fixed_statistics(c.model, c.node) || a.is_short != b.is_short)
    return std::nullopt;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    if (c.input(i) && c.in[i].data.is_short) return std::nullopt;
  if (s.sets * s.count() > std::uint64_t{1} << 30) return std::nullopt;
  return BatchNormShape{.n = static_cast<int>(s.runs),
                        .c = static_cast<int>(s.channels),
                        .plane = static_cast<int>(s.length),
                        .short_ones = a.is_short != 0};
}

void normalize(OpArrays& c, Gpu& gpu) {
  const Sets s{c};
  const bool given = fixed_statistics(c.model, c.node);
  const auto shape = c.input(1) && c.input(2) ? for_dnn(c, s, c.in[0].data, c.out[0].data) : std::nullopt;
  if (DnnBatchNorm* const dnn = shape ? gpu.dnn_batch_norm() : nullptr) {
    float* const stats = c.kept() ? c.kept() : gpu.scratch(2 * s.sets);
    if (dnn->forward(*shape, static_cast<double>(epsilon(c.node)), c.in[0].data.at, c.in[1].data.floats(),
                     c.in[2].data.floats(), c.out[0].data.at, stats, stats + s.sets))
      return;
  }
  float* const kept = keeps_statistics(c.node) ? c.kept() : nullptr;
  gpu.rows("normalize", s.sets, c.out[0].data, Reals{kept}, c.in[0].data, c.input(1).data, c.input(2).data,
           given ? c.in[3].data : Reals{}, given ? c.in[4].data : Reals{}, GpuSets{s}, epsilon(c.node),
           std::uint64_t{centred(c.node)});
}
void normalize_d(OpArrays& c, Gpu& gpu) {
  const Sets s{c};
  const bool given = fixed_statistics(c.model, c.node);
  const Reals mean = given ? c.in[3].data : Reals{}, variance = given ? c.in[4].data : Reals{};
  float* stats = c.kept();
  const bool stored = stats && keeps_statistics(c.node);
  const bool whole_op =
      stored && c.wants(0) && c.input(0) && c.input(1) && c.dx[0].data.is_short == c.dy[0].data.is_short;
  const auto shape = whole_op ? for_dnn(c, s, c.in[0].data, c.dy[0].data) : std::nullopt;
  if (DnnBatchNorm* const dnn = shape ? gpu.dnn_batch_norm() : nullptr) {
    const auto vector = [&](std::size_t i) { return c.wants(i) ? c.dx[i].data.floats() : gpu.scratch(s.sets); };
    if (dnn->backward(*shape, static_cast<double>(epsilon(c.node)), c.in[0].data.at, c.dy[0].data.at,
                      c.in[1].data.floats(), stats, stats + s.sets, c.dx[0].data.at, vector(1), vector(2)))
      return;
  }
  if (!given && !stored) {  // statistics are recomputed
    stats = gpu.scratch(2 * s.sets);
    float* ignored = gpu.scratch(c.in[0].size());
    const Reals none;
    gpu.rows("normalize", s.sets, ignored, stats, c.in[0].data, none, none, none, none, GpuSets{s}, epsilon(c.node),
             std::uint64_t{centred(c.node)});
  }
  Reals x = c.input(0).data;
  if (!x && c.wants(0)) {  // given statistics: x plays no part in its own gradient
    float* zero = gpu.scratch(c.dx[0].size());
    gpu.fill(zero, 0, c.dx[0].size());
    x = zero;
  }
  if (c.wants(0))
    gpu.rows("normalize_d", s.sets, c.dx[0].data, c.dy[0].data, x, c.input(1).data, stats, mean, variance, GpuSets{s},
             epsilon(c.node), std::uint64_t{centred(c.node)});
  if (!c.wants(1) && !c.wants(2)) return;
  if (!x) {
    float* zero = gpu.scratch(c.dy[0].size());
    gpu.fill(zero, 0, c.dy[0].size());
    x = zero;
  }
  // Partial sums of each channel, [parts, channels].
  const std::uint64_t many = c.dy[0].size() / s.channels;
  const bool lines = s.per_channel >= 32;
  const auto [each, parts] = FoldParts{many, s.channels, lines};
  float *gain = gpu.scratch(parts * s.channels), *bias = gpu.scratch(parts * s.channels);
  if (lines)
    gpu.rows("normalize_gain_lines_d", parts * s.channels, gain, bias, c.dy[0].data, x, stats, mean, variance,
             GpuSets{s}, epsilon(c.node), many, each);
  else
    gpu.each("normalize_gain_d", parts * s.channels, gain, bias, c.dy[0].data, x, stats, mean, variance, GpuSets{s},
             epsilon(c.node), many, each);
  const Shape partial{static_cast<std::int64_t>(parts), static_cast<std::int64_t>(s.channels)}, one{1, partial[1]};
  if (c.wants(1)) gpu.fold(Gpu::Fold::sum, gain, partial, c.dx[1].data, one);
  if (c.wants(2)) gpu.fold(Gpu::Fold::sum, bias, partial, c.dx[2].data, one);
}

Gpu::Fold fold_of(const std::string& type) {
  return type == "ReduceMax" || type == "GlobalMaxPool" ? Gpu::Fold::largest
         : type == "ReduceMin"                          ? Gpu::Fold::smallest
         : type == "ReduceSumSquare"                    ? Gpu::Fold::squares
                                                        : Gpu::Fold::sum;
}
/// Factor of a sum of these elements for each result: 1, or that of a mean.
float share_of(const std::string& type, const Shape& in, const Shape& out) {
  if (type != "ReduceMean" && type != "GlobalAveragePool") return 1;
  return 1 / (static_cast<float>(elements(in)) / static_cast<float>(std::max<std::int64_t>(1, elements(out))));
}

/// Shape of the result with its reduced dimensions kept as 1.
Shape kept_shape(const OpArrays& c) {
  if (!c.node.type.starts_with("Global")) return reduced_shape(c);
  Shape shape = c.value(c.node.inputs[0]).shape;
  std::fill(shape.begin() + 2, shape.end(), 1);
  return shape;
}

void reduce(OpArrays& c, Gpu& gpu) {
  const Shape &in = c.value(c.node.inputs[0]).shape, out = kept_shape(c);
  gpu.fold(fold_of(c.node.type), c.in[0].data, in, c.out[0].data, out, share_of(c.node.type, in, out));
}
void reduce_d(OpArrays& c, Gpu& gpu) {
  const Shape &in = c.value(c.node.inputs[0]).shape, out = kept_shape(c);
  gpu.each("reduce_d", c.dx[0].size(), c.dx[0].data, c.dy[0].data, c.input(0).data, c.out[0].data,
           strides_over(in, broadcast_strides(in, in), broadcast_strides(out, in)),
           static_cast<std::uint64_t>(fold_of(c.node.type)), share_of(c.node.type, in, out));
}

void gather(OpArrays& c, Gpu& gpu) {
  const Lines t = lines_along_axis(c, 0);
  gpu.each("gather", c.out[0].size(), c.out[0].data, c.in[0].data, c.in[1].data, t.length, Divisor{c.in[1].size()},
           Divisor{t.step});
}
void gather_d(OpArrays& c, Gpu& gpu) {
  const Lines t = lines_along_axis(c, 0);
  const std::uint64_t count = c.in[1].size();
  gpu.fill(c.dx[0].data, 0, c.dx[0].size());
  if (count == 0) return;
  float *next = gpu.scratch(count), *first = gpu.scratch(count);  // integers of 32 bits
  gpu.rows("gather_chain", count, static_cast<void*>(next), static_cast<void*>(first), c.in[1].data, t.length, count);
  gpu.each("gather_d", t.outer * count * t.step, c.dx[0].data, c.dy[0].data, static_cast<void*>(next),
           static_cast<void*>(first), c.in[1].data, t.length, Divisor{count}, Divisor{t.step});
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
