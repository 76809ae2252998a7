#include <fmt/format.h>

#include "trainyard/model/shape_rules.hpp"

namespace trainyard::detail {

Shape broadcast(const ShapeContext& context, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& extent = result[offset + i];
    if (extent == shorter[i] || shorter[i] == 1) continue;
    if (extent != 1)
      context.fail(fmt::format("shapes {} and {} do not fit: dimensions must be equal or 1", text_of(a), text_of(b)));
    extent = shorter[i];
  }
  return result;
}

namespace {

void same_as_first(ShapeContext& context) { context.output(0, context.shape(0), context.type(0)); }

void boolean_as_first(ShapeContext& context) { context.output(0, context.shape(0), DataType::boolean); }

/// Element-wise operators of any number of inputs, broadcast to a common shape.
void broadcast_all(ShapeContext& context, DataType type) {
  Shape shape = context.shape(0);
  // Before opset 7, a node with the attribute `broadcast` expands its second input to the shape of the first.
  const bool fits_itself = context.node().integer("broadcast", 0) != 0;
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    const Shape& next = context.shape(i);
    if (!fits_itself) shape = broadcast(context, shape, next);
  }
  context.output(0, std::move(shape), type);
}

void arithmetic(ShapeContext& context) { broadcast_all(context, context.type(0)); }

void comparison(ShapeContext& context) { broadcast_all(context, DataType::boolean); }

void where(ShapeContext& context) {
  const Shape chosen = broadcast(context, context.shape(1), context.shape(2));
  context.output(0, broadcast(context, context.shape(0), chosen), context.type(1));
}

/// The slope is broadcast to the input, never the other way round.
void prelu(ShapeContext& context) {
  const Shape& x = context.shape(0);
  const Shape& slope = context.shape(1);
  // Old exporters give one slope per channel without the trailing dimensions of 1.
  const bool per_channel = slope.size() == 1 && x.size() >= 2 && slope[0] == x[1];
  if (!per_channel) context.require(broadcast(context, x, slope) == x, "the slope is larger than the input");
  context.output(0, x, context.type(0));
}

DataType type_named(const ShapeContext& context, std::int64_t number) {
  const auto type = data_type_from_onnx(number);
  context.require(type.has_value(), fmt::format("data type {} is not supported", number));
  return *type;
}

void cast(ShapeContext& context) {
  context.require(context.node().has_attribute("to"), "the attribute 'to' is missing");
  context.output(0, context.shape(0), type_named(context, context.node().integer("to", 0)));
}

void cast_like(ShapeContext& context) { context.output(0, context.shape(0), context.type(1)); }

void dropout(ShapeContext& context) {
  same_as_first(context);
  context.output(1, context.shape(0), DataType::boolean);
}

void quantize(ShapeContext& context) {
  context.output(0, context.shape(0), context.has(2) ? context.type(2) : DataType::uint8);
}

void dequantize(ShapeContext& context) { context.output(0, context.shape(0), context.type(1)); }

constexpr NamedRule kElementwiseRules[] = {
    // one input
    {"Abs", same_as_first},
    {"Acos", same_as_first},
    {"Acosh", same_as_first},
    {"Asin", same_as_first},
    {"Asinh", same_as_first},
    {"Atan", same_as_first},
    {"Atanh", same_as_first},
    {"Bernoulli", same_as_first},
    {"BitwiseNot", same_as_first},
    {"Ceil", same_as_first},
    {"Celu", same_as_first},
    {"Clip", same_as_first},
    {"Cos", same_as_first},
    {"Cosh", same_as_first},
    {"CumSum", same_as_first},
    {"Elu", same_as_first},
    {"Erf", same_as_first},
    {"Exp", same_as_first},
    {"Floor", same_as_first},
    {"Gelu", same_as_first},
    {"HardSigmoid", same_as_first},
    {"HardSwish", same_as_first},
    {"Hardmax", same_as_first},
    {"Identity", same_as_first},
    {"LRN", same_as_first},
    {"LeakyRelu", same_as_first},
    {"Log", same_as_first},
    {"LogSoftmax", same_as_first},
    {"LpNormalization", same_as_first},
    {"MeanVarianceNormalization", same_as_first},
    {"Mish", same_as_first},
    {"Neg", same_as_first},
    {"Reciprocal", same_as_first},
    {"Relu", same_as_first},
    {"ReverseSequence", same_as_first},
    {"Round", same_as_first},
    {"ScaledTanh", same_as_first},
    {"Selu", same_as_first},
    {"Shrink", same_as_first},
    {"Sigmoid", same_as_first},
    {"Sign", same_as_first},
    {"Sin", same_as_first},
    {"Sinh", same_as_first},
    {"Softmax", same_as_first},
    {"Softplus", same_as_first},
    {"Softsign", same_as_first},
    {"Sqrt", same_as_first},
    {"Swish", same_as_first},
    {"Tan", same_as_first},
    {"Tanh", same_as_first},
    {"ThresholdedRelu", same_as_first},
    {"Trilu", same_as_first},
    {"IsInf", boolean_as_first},
    {"IsNaN", boolean_as_first},
    {"Not", boolean_as_first},
    // several inputs, broadcast to each other
    {"Add", arithmetic, 2, 2},
    {"BitShift", arithmetic, 2, 2},
    {"BitwiseAnd", arithmetic, 2, 2},
    {"BitwiseOr", arithmetic, 2, 2},
    {"BitwiseXor", arithmetic, 2, 2},
    {"Div", arithmetic, 2, 2},
    {"Max", arithmetic},
    {"Mean", arithmetic},
    {"Min", arithmetic},
    {"Mod", arithmetic, 2, 2},
    {"Mul", arithmetic, 2, 2},
    {"Pow", arithmetic, 2, 2},
    {"Sub", arithmetic, 2, 2},
    {"Sum", arithmetic},
    {"And", comparison, 2, 2},
    {"Equal", comparison, 2, 2},
    {"Greater", comparison, 2, 2},
    {"GreaterOrEqual", comparison, 2, 2},
    {"Less", comparison, 2, 2},
    {"LessOrEqual", comparison, 2, 2},
    {"Or", comparison, 2, 2},
    {"Xor", comparison, 2, 2},
    {"PRelu", prelu},
    {"Where", where},
    // types
    {"Cast", cast},
    {"CastLike", cast_like},
    {"DequantizeLinear", dequantize},
    {"Dropout", dropout},
    {"QuantizeLinear", quantize},
};

}  // namespace

std::span<const NamedRule> elementwise_rules() { return kElementwiseRules; }

}  // namespace trainyard::detail
