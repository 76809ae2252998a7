#include "trainyard/model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trainyard/core/check_entries.hpp"
#include "trainyard/core/error.hpp"

namespace trainyard {

namespace {

struct TypeRow {
  std::string_view name;
  std::int64_t bytes;
  std::int64_t onnx;
};

// In the order of DataType. `onnx` is the number in onnx.proto's TensorProto.DataType.
constexpr std::array<TypeRow, 10> kTypes = {{{"float32", 4, 1},
                                             {"float16", 2, 10},
                                             {"bfloat16", 2, 16},
                                             {"float64", 8, 11},
                                             {"int64", 8, 7},
                                             {"int32", 4, 6},
                                             {"int16", 2, 5},
                                             {"int8", 1, 3},
                                             {"uint8", 1, 2},
                                             {"bool", 1, 9}}};

const TypeRow& row(DataType type) { return kTypes[static_cast<std::size_t>(type)]; }

[[noreturn]] void wrong_kind(const Node& node, const std::string& key, const char* expected) {
  refuse("attribute", fmt::format("{} '{}': the attribute '{}' is not {}", node.type, node.name, key, expected),
         "see the operator's definition in the ONNX specification");
}

}  // namespace

std::int64_t bytes_per_element(DataType type) { return row(type).bytes; }
std::string_view name_of(DataType type) { return row(type).name; }
std::int64_t onnx_number(DataType type) { return row(type).onnx; }

bool is_floating_point(DataType type) {
  return type == DataType::float32 || type == DataType::float16 || type == DataType::bfloat16 ||
         type == DataType::float64;
}

std::optional<DataType> data_type_from_onnx(std::int64_t number) {
  switch (number) {
    case 4:
      return DataType::int16;
    case 12:
      return DataType::int32;
    case 13:
      return DataType::int64;
    default:
      break;
  }
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].onnx == number) return static_cast<DataType>(i);
  return std::nullopt;
}

std::int64_t elements(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product) || product > kMostElements) {
      refuse("too-large", fmt::format("an array of {} has too many elements", text_of(shape)),
             "an array may have at most 2^59 elements");
    }
  }
  return product;
}

std::string text_of(const Shape& shape) { return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x")); }

std::int64_t Node::integer(const std::string& key, std::int64_t otherwise) const {
  const auto at = attributes.find(key);
  if (at == attributes.end()) return otherwise;
  if (const auto* value = std::get_if<std::int64_t>(&at->second)) return *value;
  wrong_kind(*this, key, "a whole number");
}

double Node::real(const std::string& key, double otherwise) const {
  const auto at = attributes.find(key);
  if (at == attributes.end()) return otherwise;
  if (const auto* value = std::get_if<double>(&at->second)) return *value;
  if (const auto* whole = std::get_if<std::int64_t>(&at->second)) return static_cast<double>(*whole);
  wrong_kind(*this, key, "a number");
}

std::string Node::text(const std::string& key, const std::string& otherwise) const {
  const auto at = attributes.find(key);
  if (at == attributes.end()) return otherwise;
  if (const auto* value = std::get_if<std::string>(&at->second)) return *value;
  wrong_kind(*this, key, "a string");
}

std::vector<std::int64_t> Node::integers(const std::string& key, std::vector<std::int64_t> otherwise) const {
  const auto at = attributes.find(key);
  if (at == attributes.end()) return otherwise;
  if (const auto* value = std::get_if<std::vector<std::int64_t>>(&at->second)) return *value;
  wrong_kind(*this, key, "a list of whole numbers");
}

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Value& value : values) {
    if (value.role != Value::Role::parameter) continue;
    count += elements(value.shape);
    if (count > kMostElements) refuse("too-large", fmt::format("'{}' has too many parameters", name), {});
  }
  return count;
}

void remove_nodes(Model& model, const IdMap<NodeId, std::uint8_t>& dead) {
  check_entries("the marks", dead.size(), model.nodes.size(), "nodes");
  std::vector<Node> nodes;
  nodes.reserve(model.nodes.size());
  IdMap<ValueId, std::uint8_t> used(model.values.size());
  for (const NodeId id : model.nodes.ids()) {
    if (dead[id]) continue;
    nodes.push_back(std::move(model.nodes[id]));
    for (const auto* list : {&nodes.back().inputs, &nodes.back().outputs}) {
      for (const ValueId value : *list)
        if (!value.is_none()) used[value] = 1;
    }
  }
  for (const auto* list : {&model.inputs, &model.outputs})
    for (const ValueId value : *list) used[value] = 1;
  IdMap<ValueId, ValueId> renamed(model.values.size());
  std::vector<Value> values;
  for (const ValueId id : model.values.ids()) {
    const Value::Role role = model.values[id].role;
    const bool droppable = role == Value::Role::activation || role == Value::Role::constant;
    if (droppable && !used[id]) continue;
    renamed[id] = ValueId{values.size()};
    values.push_back(std::move(model.values[id]));
  }
  const auto rename = [&](std::vector<ValueId>& list) {
    for (ValueId& id : list)
      if (!id.is_none()) id = renamed[id];
  };
  for (Node& node : nodes) rename(node.inputs), rename(node.outputs);
  rename(model.inputs);
  rename(model.outputs);
  model.nodes = IdMap<NodeId, Node>{std::move(nodes)};
  model.values = IdMap<ValueId, Value>{std::move(values)};
}

}  // namespace trainyard
