#include "trainyard/zoo/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "trainyard/core/error.hpp"
#include "trainyard/core/text.hpp"
#include "trainyard/model/shape_inference.hpp"

namespace trainyard::zoo {

namespace {

std::vector<std::int64_t> pads(const std::array<std::int64_t, 2>& padding) {
  return {padding[0], padding[1], padding[0], padding[1]};
}

std::map<std::string, Attribute> attributes_of(const Pooling& how) {
  return {{"kernel_shape", std::vector<std::int64_t>{how.kernel, how.kernel}},
          {"strides", std::vector<std::int64_t>{how.stride, how.stride}},
          {"pads", pads({how.padding, how.padding})},
          {"ceil_mode", std::int64_t{how.ceil}}};
}

/// 64 TiB of float32: more than any machine has, and small enough that sums of sizes stay below 2^63.
constexpr std::int64_t kMostElements = std::int64_t{1} << 44;

void check_size(const Value& value) {
  if (elements(value.shape) <= kMostElements) return;
  refuse("too-large", fmt::format("'{}' would have more than {} elements", value.name, kMostElements),
         "give smaller sizes");
}

}  // namespace

void LayerBuilder::at(std::string layer, std::string_view detail) {
  layer_ = std::move(layer);
  prefix_ = detail.empty() ? layer_ + "/" : fmt::format("{}/{}/", layer_, detail);
}

std::string LayerBuilder::next_name(const std::string& kind) {
  const std::string name = prefix_ + kind;
  const int use = ++uses_[name];
  return use == 1 ? name : fmt::format("{}_{}", name, use);
}

ValueId LayerBuilder::add_value(Value value) {
  value.shape_known = true;
  check_size(value);
  const ValueId id{model_.values.size()};
  model_.values.push_back(std::move(value));
  return id;
}

ValueId LayerBuilder::input(const std::string& name, Shape shape, DataType type) {
  const ValueId id = add_value({.name = name, .type = type, .shape = std::move(shape), .role = Value::Role::input});
  model_.inputs.push_back(id);
  return id;
}

ValueId LayerBuilder::parameter(const std::string& name, Shape shape) {
  return weights(prefix_ + name, std::move(shape));
}

ValueId LayerBuilder::weights(std::string name, Shape shape) {
  return add_value({.name = std::move(name), .shape = std::move(shape), .role = Value::Role::parameter});
}

ValueId LayerBuilder::constant(std::vector<std::int64_t> contents) {
  const auto [at, added] = constants_.try_emplace(contents, ValueId::none());
  if (added) {
    const auto count = static_cast<std::int64_t>(contents.size());
    at->second = add_value({.name = fmt::format("constant_{}", model_.values.size()),
                            .type = DataType::int64,
                            .shape = {count},
                            .role = Value::Role::constant,
                            .integers = std::move(contents),
                            .contents_known = true});
  }
  return at->second;
}

ValueId LayerBuilder::scalar_constant(std::int64_t contents) {
  const auto [at, added] = scalars_.try_emplace(contents, ValueId::none());
  if (added) {
    at->second = add_value({.name = fmt::format("constant_{}", model_.values.size()),
                            .type = DataType::int64,
                            .role = Value::Role::constant,
                            .integers = {contents},
                            .contents_known = true});
  }
  return at->second;
}

ValueId LayerBuilder::opaque_constant(Shape shape, DataType type) {
  return add_value({.name = fmt::format("constant_{}", model_.values.size()),
                    .type = type,
                    .shape = std::move(shape),
                    .role = Value::Role::constant});
}

ValueId LayerBuilder::append(const std::string& type, std::vector<ValueId> inputs,
                             std::map<std::string, Attribute> attributes, std::size_t outputs,
                             const std::string& name) {
  const std::string node_name = name.empty() ? next_name(trainyard::detail::lower_case(type)) : name;
  const ValueId first{model_.values.size()};
  std::vector<ValueId> produced;
  for (std::size_t i = 0; i < outputs; ++i) {
    produced.push_back(ValueId{model_.values.size()});
    model_.values.push_back({.name = i == 0 ? node_name + ".out" : fmt::format("{}.out{}", node_name, i + 1)});
  }
  const NodeId node{model_.nodes.size()};
  model_.nodes.push_back({.name = node_name,
                          .type = type,
                          .inputs = std::move(inputs),
                          .outputs = produced,
                          .attributes = std::move(attributes),
                          .layer = layer_});
  infer_shapes(model_, node);
  for (const ValueId output : produced) {
    const Value& value = model_.values[output];
    assert(value.shape_known);
    if (std::any_of(value.shape.begin(), value.shape.end(), [](std::int64_t d) { return d <= 0; })) {
      refuse("too-small", fmt::format("{}: nothing is left of the input at '{}'", model_.name, node_name),
             "give a larger image");
    }
    check_size(value);
  }
  return first;
}

ValueId LayerBuilder::conv(ValueId x, const Convolution& how) {
  assert(shape(x)[1] % how.groups == 0 && how.channels % how.groups == 0);
  const std::string name = next_name("conv");
  std::vector<ValueId> inputs = {
      x, weights(name + ".weight", {how.channels, shape(x)[1] / how.groups, how.kernel[0], how.kernel[1]})};
  if (how.bias) inputs.push_back(weights(name + ".bias", {how.channels}));
  return append("Conv", std::move(inputs),
                {{"kernel_shape", std::vector<std::int64_t>{how.kernel[0], how.kernel[1]}},
                 {"strides", std::vector<std::int64_t>{how.stride, how.stride}},
                 {"pads", pads(how.padding)},
                 {"dilations", std::vector<std::int64_t>{1, 1}},
                 {"group", how.groups}},
                1, name);
}

ValueId LayerBuilder::batch_norm(ValueId x, double epsilon) {
  const std::string name = next_name("batch_norm");
  const Shape per_channel = {shape(x)[1]};
  std::vector<ValueId> inputs = {x};
  for (const char* parameter : {".weight", ".bias"}) inputs.push_back(weights(name + parameter, per_channel));
  for (const char* statistic : {".running_mean", ".running_var"})
    inputs.push_back(add_value({.name = name + statistic, .shape = per_channel, .role = Value::Role::buffer}));
  return append("BatchNormalization", std::move(inputs), {{"epsilon", epsilon}, {"training_mode", std::int64_t{1}}}, 3,
                name);
}

ValueId LayerBuilder::relu6(ValueId x) {
  return append("Clip", {x, opaque_constant({}), opaque_constant({})}, {}, 1, next_name("relu6"));
}

ValueId LayerBuilder::gelu(ValueId x, bool tanh_approximation) {
  return append("Gelu", {x}, {{"approximate", std::string{tanh_approximation ? "tanh" : "none"}}});
}

ValueId LayerBuilder::softmax(ValueId x) { return append("Softmax", {x}, {{"axis", std::int64_t{-1}}}); }

ValueId LayerBuilder::dropout(ValueId x, double ratio) {
  return ratio > 0 ? append("Dropout", {x}, {{"ratio", ratio}}) : x;
}

ValueId LayerBuilder::max_pool(ValueId x, const Pooling& how) {
  return append("MaxPool", {x}, attributes_of(how), 1, next_name("max_pool"));
}

ValueId LayerBuilder::average_pool(ValueId x, const Pooling& how) {
  auto attributes = attributes_of(how);
  attributes.emplace("count_include_pad", std::int64_t{how.count_padding});
  return append("AveragePool", {x}, std::move(attributes), 1, next_name("average_pool"));
}

ValueId LayerBuilder::adaptive_average_pool(ValueId x, std::int64_t size) {
  const std::int64_t given = shape(x)[2];
  const std::int64_t wanted = std::min(size, given);
  const std::int64_t stride = given / wanted;
  return average_pool(x, {.kernel = given - (wanted - 1) * stride, .stride = stride});
}

ValueId LayerBuilder::flatten(ValueId x) { return append("Flatten", {x}, {{"axis", std::int64_t{1}}}); }

ValueId LayerBuilder::gemm(ValueId x, std::int64_t outputs) {
  const std::string name = next_name("gemm");
  const ValueId weight = weights(name + ".weight", {outputs, shape(x)[1]});
  const ValueId bias = weights(name + ".bias", {outputs});
  return append("Gemm", {x, weight, bias}, {{"transB", std::int64_t{1}}}, 1, name);
}

ValueId LayerBuilder::linear(ValueId x, std::int64_t outputs, bool bias) {
  const std::string name = next_name("linear");
  std::vector<ValueId> inputs = {x, weights(name + ".weight", {shape(x).back(), outputs})};
  if (bias) inputs.push_back(weights(name + ".bias", {outputs}));
  return append("Linear", std::move(inputs), {}, 1, name);
}

ValueId LayerBuilder::layer_norm(ValueId x, double epsilon) {
  const std::string name = next_name("layer_norm");
  const std::int64_t width = shape(x).back();
  const ValueId weight = weights(name + ".weight", {width});
  const ValueId bias = weights(name + ".bias", {width});
  return append("LayerNormalization", {x, weight, bias}, {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}}, 1, name);
}

ValueId LayerBuilder::rms_norm(ValueId x, double epsilon) {
  const std::string name = next_name("rms_norm");
  const ValueId weight = weights(name + ".weight", {shape(x).back()});
  return append("RMSNormalization", {x, weight}, {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}}, 1, name);
}

ValueId LayerBuilder::select(ValueId x, std::int64_t axis, std::int64_t index) {
  return append("Gather", {x, scalar_constant(index)}, {{"axis", axis}}, 1, next_name("select"));
}

std::vector<ValueId> LayerBuilder::split(ValueId x, std::int64_t axis, std::size_t parts) {
  const std::int64_t rank = static_cast<std::int64_t>(shape(x).size());
  const std::int64_t whole = shape(x)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
  const auto count = static_cast<std::int64_t>(parts);
  assert(whole % count == 0);
  const ValueId sizes = constant(std::vector<std::int64_t>(parts, whole / count));
  const ValueId first = append("Split", {x, sizes}, {{"axis", axis}}, parts);
  std::vector<ValueId> pieces;
  for (std::size_t i = 0; i < parts; ++i) pieces.push_back(ValueId{first.index() + i});
  return pieces;
}

ValueId LayerBuilder::slice(ValueId x, std::int64_t axis, std::int64_t first, std::int64_t last) {
  return append("Slice", {x, constant({first}), constant({last}), constant({axis})});
}

ValueId LayerBuilder::reshape(ValueId x, std::vector<std::int64_t> to) {
  return append("Reshape", {x, constant(std::move(to))});
}

ValueId LayerBuilder::transpose(ValueId x, std::vector<std::int64_t> order) {
  return append("Transpose", {x}, {{"perm", std::move(order)}});
}

ValueId LayerBuilder::unsqueeze(ValueId x, std::int64_t axis) { return append("Unsqueeze", {x, constant({axis})}); }

ValueId LayerBuilder::squeeze(ValueId x, std::int64_t axis) { return append("Squeeze", {x, constant({axis})}); }

Model LayerBuilder::finish(const std::vector<ValueId>& outputs) && {
  model_.outputs = outputs;
  return std::move(model_);
}

}  // namespace trainyard::zoo
