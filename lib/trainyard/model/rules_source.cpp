
#include <cmath>
#include <limits>

#include "trainyard/model/shape_rules.hpp"

namespace trainyard::detail {

namespace {

DataType type_attribute(const ShapeContext& context, const std::string& key, DataType otherwise) {
  const auto type = data_type_from_onnx(context.node().integer(key, onnx_number(otherwise)));
  context.require(type.has_value(), "its data type is not supported");
  return *type;
}

/// A literal given by attributes. Readers turn tensor literals into values, so no Constant node remains for them.
void constant(ShapeContext& context) {
  const Node& node = context.node();
  if (node.has_attribute("value_int")) return context.output(0, {}, DataType::int64);
  if (node.has_attribute("value_float")) return context.output(0, {}, DataType::float32);
  if (node.has_attribute("value_ints"))
    return context.output(0, {static_cast<std::int64_t>(node.integers("value_ints").size())}, DataType::int64);
  const auto floats = node.attributes.find("value_floats");
  context.require(floats != node.attributes.end() && std::holds_alternative<std::vector<double>>(floats->second),
                  "it does not hold a number");
  const auto count = static_cast<std::int64_t>(std::get<std::vector<double>>(floats->second).size());
  context.output(0, {count}, DataType::float32);
}

void constant_of_shape(ShapeContext& context) {
  context.output(0, context.contents(0), type_attribute(context, "value_type", DataType::float32));
}

/// Length of the range from start to limit. All three inputs must be known and of one type.
void range(ShapeContext& context) {
  const Value& start = context.value(0);
  if (!start.reals.empty() && !context.value(1).reals.empty() && !context.value(2).reals.empty()) {
    const double count = std::ceil((context.value(1).reals[0] - start.reals[0]) / context.value(2).reals[0]);
    context.require(std::isfinite(count) && count <= 0x1p40, "it has too many numbers");
    return context.output(0, {count > 0 ? static_cast<std::int64_t>(count) : 0}, start.type);
  }
  const std::int64_t first = context.scalar(0), limit = context.scalar(1), step = context.scalar(2);
  context.require(step != 0, "the step is 0");
  std::int64_t span = 0;
  if (__builtin_sub_overflow(limit, first, &span)) context.fail("it has too many numbers");
  std::int64_t count = 0;
  if ((span > 0) == (step > 0) && span != 0) {
    // Dividing the most negative number by -1 overflows.
    context.require(span != std::numeric_limits<std::int64_t>::min(), "it has too many numbers");
    count = span / step + (span % step != 0 ? 1 : 0);
  }
  context.output(0, {count}, start.type);
}

void shape_of(ShapeContext& context) {
  const auto rank = static_cast<std::int64_t>(context.rank(0));
  const auto clamp = [rank](std::int64_t at) { return at < -rank ? 0 : at < 0 ? at + rank : at > rank ? rank : at; };
  const std::int64_t start = clamp(context.node().integer("start", 0)),
                     end = clamp(context.node().integer("end", rank));
  context.output(0, {end > start ? end - start : 0}, DataType::int64);
}

void size_of(ShapeContext& context) {
  context.shape(0);
  context.output(0, {}, DataType::int64);
}

void eye_like(ShapeContext& context) {
  context.output(0, context.shape(0), type_attribute(context, "dtype", context.type(0)));
}

void random(ShapeContext& context) {
  context.require(context.node().has_attribute("shape"), "the attribute 'shape' is missing");
  context.output(0, context.node().integers("shape"), type_attribute(context, "dtype", DataType::float32));
}

void multinomial(ShapeContext& context) {
  context.require(context.rank(0) == 2, "it needs a matrix");
  context.output(0, {context.shape(0)[0], context.small_integer("sample_size", 1)},
                 type_attribute(context, "dtype", DataType::int32));
}

constexpr NamedRule kSourceRules[] = {
    {"Constant", constant},    {"ConstantOfShape", constant_of_shape},
    {"EyeLike", eye_like},     {"Multinomial", multinomial},
    {"RandomNormal", random},  {"RandomNormalLike", eye_like},
    {"RandomUniform", random}, {"RandomUniformLike", eye_like},
    {"Range", range},          {"Shape", shape_of},
    {"Size", size_of},
};

}  // namespace

std::span<const NamedRule> source_rules() { return kSourceRules; }

}  // namespace trainyard::detail
