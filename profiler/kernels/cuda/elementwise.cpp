#include <algorithm>
#include <limits>

#include "profiler/kernels/cuda/gpu_kernels.hpp"
#include "profiler/kernels/strides.hpp"
#include "profiler/kernels/views.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cuda {
namespace {

struct Unary {
  std::string kernel;
  float p = 0, q = 0;
};

Unary unary_of(const OpArrays& c) {
  const Node& node = c.node;
  const auto real = [&](const char* key, double otherwise) { return static_cast<float>(node.real(key, otherwise)); };
  if (node.type == "LeakyRelu") return {node.type, real("alpha", 0.01)};
  if (node.type == "Elu" || node.type == "Celu" || node.type == "ThresholdedRelu" || node.type == "Swish")
    return {node.type, real("alpha", 1)};
  if (node.type == "Selu")
    return {node.type, real("alpha", 1.67326319217681884765625), real("gamma", 1.05070102214813)};
  if (node.type == "HardSigmoid") return {node.type, real("alpha", 0.2), real("beta", 0.5)};
  if (node.type == "Gelu") return {node.text("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu"};
  if (node.type == "Clip") {
    // Bounds are constants of the model: their numbers are known without asking the GPU.
    const auto bound = [&](std::size_t i, const char* key, double otherwise) {
      const ValueId id = input_at(node, i);
      if (id.is_none()) return real(key, otherwise);
      const Value& value = c.value(id);
      if (!value.reals.empty()) return static_cast<float>(value.reals[0]);
      return value.integers.empty() ? static_cast<float>(otherwise) : static_cast<float>(value.integers[0]);
    };
    constexpr double kMost = std::numeric_limits<float>::max();
    return {node.type, bound(1, "min", -kMost), bound(2, "max", kMost)};
  }
  if (node.type == "Cast" || node.type == "CastLike") {
    const DataType type = c.value(node.outputs[0]).type;
    return {is_floating_point(type) ? "Identity" : type == DataType::boolean ? "Truth" : "Truncate"};
  }
  return {node.type};
}

void unary(OpArrays& c, Gpu& gpu) {
  const Unary u = unary_of(c);
  gpu.each((u.kernel + "_f").c_str(), c.out[0].size(), c.out[0].data, c.in[0].data, u.p, u.q);
}
void unary_d(OpArrays& c, Gpu& gpu) {
  if (!c.wants(0)) return;
  const Unary u = unary_of(c);
  gpu.each((u.kernel + "_d").c_str(), c.dx[0].size(), c.dx[0].data, c.dy[0].data, c.input(0).data, c.out[0].data, u.p,
           u.q);
}

Strides pair_strides(const Array& a, const Array& b, const Shape& out) {
  const std::vector<std::int64_t> none;
  return strides_over(out, a ? broadcast_strides(*a.shape, out) : none, b ? broadcast_strides(*b.shape, out) : none);
}

void apply(Gpu& gpu, const std::string& type, const Array& a, const Array& b, const Array& y) {
  gpu.each((type + "_f").c_str(), y.size(), y.data, a.data, b.data, pair_strides(a, b, *y.shape));
}

void binary(OpArrays& c, Gpu& gpu) { apply(gpu, c.node.type, c.in[0], c.in[1], c.out[0]); }

void binary_d(OpArrays& c, Gpu& gpu) {
  const Array& dy = c.dy[0];
  const Array a = c.input(0), b = c.input(1);
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (!c.wants(side)) continue;
    const bool plain = *c.dx[side].shape == *dy.shape;
    const Reals to = plain ? c.dx[side].data : gpu.scratch(dy.size(), dy.data);
    gpu.each((c.node.type + "_d").c_str(), dy.size(), to, dy.data, a.data, b.data, pair_strides(a, b, *dy.shape),
             static_cast<std::uint64_t>(side));
    if (!plain) gpu.sum_to_shape(to, *dy.shape, c.dx[side]);
  }
}

void where(OpArrays& c, Gpu& gpu) {
  const Array& y = c.out[0];
  gpu.each("where_f", y.size(), y.data, c.in[0].data, c.in[1].data, c.in[2].data,
           strides_over(*y.shape, broadcast_strides(*c.in[0].shape, *y.shape),
                        broadcast_strides(*c.in[1].shape, *y.shape), broadcast_strides(*c.in[2].shape, *y.shape)));
}
void where_d(OpArrays& c, Gpu& gpu) {
  const Array& dy = c.dy[0];
  for (const std::size_t side : {std::size_t{1}, std::size_t{2}}) {
    if (!c.wants(side)) continue;
    const Reals to = gpu.scratch(dy.size(), dy.data);
    gpu.each("where_d", dy.size(), to, dy.data, c.in[0].data,
             strides_over(*dy.shape, broadcast_strides(*c.in[0].shape, *dy.shape)), static_cast<std::uint64_t>(side));
    gpu.sum_to_shape(to, *dy.shape, c.dx[side]);
  }
}

/// Sum and Mean of any number of operands.
void many(OpArrays& c, Gpu& gpu) {
  const Array& y = c.out[0];
  gpu.fill(y.data, 0, y.size());
  for (const Array& x : c.in) apply(gpu, "Add", y, x, y);
  if (c.node.type == "Mean") gpu.scale_add(y.data, y.data, 1 / static_cast<float>(c.in.size()), 0, y.size());
}
void many_d(OpArrays& c, Gpu& gpu) {
  for (std::size_t i = 0; i < c.dx.size(); ++i) {
    if (!c.wants(i)) continue;
    gpu.sum_to_shape(c.dy[0].data, *c.dy[0].shape, c.dx[i]);
    if (c.node.type == "Mean")
      gpu.scale_add(c.dx[i].data, c.dx[i].data, 1 / static_cast<float>(c.in.size()), 0, c.dx[i].size());
  }
}

void concat(OpArrays& c, Gpu& gpu) {
  const Array& y = c.out[0];
  const std::size_t axis = axis_at(c.node.integer("axis", 0), y.rank());
  std::vector<std::int64_t> strides(y.rank(), 1);
  for (std::size_t i = y.rank(); i-- > 1;) strides[i - 1] = strides[i] * y.dim(i);
  std::int64_t offset = 0;
  for (const Array& x : c.in) {
    gpu.scatter(y.data, x.data, *x.shape, strides, offset, 0);
    offset += x.dim(axis) * strides[axis];
  }
}

/// Layout of the kernels' argument.
struct Padding {
  std::uint64_t rank = 0, mode = 0;
  std::int64_t outer[8] = {}, inner[8] = {}, before[8] = {};
};
Padding padding(const OpArrays& c, const Shape& outer, const Shape& inner) {
  Padding p;
  static_cast<void>(strides_over(outer, {}));  // refuses more than 8 dimensions
  p.rank = outer.size();
  const std::string mode = c.node.text("mode", "constant");
  p.mode = mode == "edge" ? 1 : mode == "wrap" ? 2 : mode == "reflect" ? 3 : 0;
  std::ranges::copy(outer, p.outer);
  std::ranges::copy(inner, p.inner);
  const std::vector<std::int64_t> before = pads_before(c.model, c.node, p.rank);
  std::ranges::copy(before, p.before);
  return p;
}
void pad(OpArrays& c, Gpu& gpu) {
  const Array filler = c.input(2);
  gpu.each("pad", c.out[0].size(), c.out[0].data, c.in[0].data, padding(c, *c.out[0].shape, *c.in[0].shape),
           filler.data, static_cast<float>(c.node.real("value", 0)));
}
void pad_d(OpArrays& c, Gpu& gpu) {
  gpu.each("pad_d", c.dx[0].size(), c.dx[0].data, c.dy[0].data, padding(c, *c.dy[0].shape, *c.dx[0].shape));
}

float drop_ratio(const OpArrays& c) {
  const ValueId id = input_at(c.node, 1);
  if (!id.is_none() && !c.value(id).reals.empty()) return static_cast<float>(c.value(id).reals[0]);
  return static_cast<float>(c.node.real("ratio", 0.5));
}
void dropout(OpArrays& c, Gpu& gpu) {
  void* mask = c.extra.empty() ? nullptr : static_cast<void*>(c.extra[0]);
  const Reals stayed = c.out.size() > 1 ? c.out[1].data : Reals{};
  gpu.each("dropout", c.out[0].size(), c.out[0].data, stayed, mask, c.in[0].data, drop_ratio(c), c.seed);
}
void dropout_d(OpArrays& c, Gpu& gpu) {
  gpu.each("dropout_d", c.dx[0].size(), c.dx[0].data, c.dy[0].data, static_cast<void*>(c.extra[0]), drop_ratio(c));
}

void constant_of_shape(OpArrays& c, Gpu& gpu) {
  float value = 0;
  const auto given = c.node.attributes.find("value");
  if (given != c.node.attributes.end()) {
    if (const auto* reals = std::get_if<std::vector<double>>(&given->second); reals && !reals->empty())
      value = static_cast<float>(reals->front());
    else if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&given->second); whole && !whole->empty())
      value = static_cast<float>(whole->front());
  }
  gpu.fill(c.out[0].data, value, c.out[0].size());
}

constexpr GpuOp both(std::string_view type) { return {type, unary, unary_d}; }
constexpr GpuOp pair(std::string_view type) { return {type, binary, binary_d}; }

constexpr GpuOp kElementwise[] = {
    both("Relu"),
    both("Sigmoid"),
    both("Tanh"),
    both("Exp"),
    both("Sqrt"),
    both("Reciprocal"),
    both("LeakyRelu"),
    both("ThresholdedRelu"),
    both("Elu"),
    both("Celu"),
    both("Selu"),
    both("HardSigmoid"),
    both("HardSwish"),
    both("Gelu"),
    both("Erf"),
    both("Log"),
    both("Abs"),
    both("Neg"),
    both("Softplus"),
    both("Softsign"),
    both("Swish"),
    both("Mish"),
    both("Sin"),
    both("Cos"),
    both("Clip"),
    both("Identity"),
    both("Cast"),
    both("CastLike"),
    {"Not", unary},
    {"Floor", unary},
    {"Ceil", unary},
    {"Sign", unary},
    pair("Add"),
    pair("Sub"),
    pair("Mul"),
    pair("Div"),
    pair("Pow"),
    pair("PRelu"),
    pair("Max"),
    pair("Min"),
    {"Equal", binary},
    {"Greater", binary},
    {"Less", binary},
    {"GreaterOrEqual", binary},
    {"LessOrEqual", binary},
    {"And", binary},
    {"Or", binary},
    {"Where", where, where_d},
    {"Sum", many, many_d},
    {"Mean", many, many_d},
    {"Concat", concat},
    {"Pad", pad, pad_d},
    {"Dropout", dropout, dropout_d},
    {"ConstantOfShape", constant_of_shape},
};

}  // namespace

std::span<const GpuOp> elementwise_gpu_ops() { return kElementwise; }

const GpuOp* find_gpu_op(std::string_view type) {
  for (const auto& table : {elementwise_gpu_ops(), product_gpu_ops(), row_gpu_ops(), expert_gpu_ops()})
    for (const GpuOp& op : table)
      if (op.type == type) return &op;
  return nullptr;
}

}  // namespace trainyard::cuda
