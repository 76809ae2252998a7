#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainyard/model/model.hpp"
#include "trainyard/model/shape_inference.hpp"

namespace trainyard::test {

/// A model built by hand, one node a line.
class MadeModel {
 public:
  Model model;

  ValueId value(const std::string& name, Shape shape, Value::Role role, DataType type = DataType::float32) {
    model.values.push_back({.name = name, .type = type, .shape = std::move(shape), .shape_known = true, .role = role});
    const ValueId id{model.values.size() - 1};
    if (role == Value::Role::input) model.inputs.push_back(id);
    return id;
  }
  ValueId input(Shape shape, DataType type = DataType::float32) {
    return value("x" + std::to_string(model.inputs.size()), std::move(shape), Value::Role::input, type);
  }
  ValueId parameter(Shape shape) {
    return value("p" + std::to_string(model.values.size()), std::move(shape), Value::Role::parameter);
  }
  /// A constant of whole numbers, such as the arguments of Reshape.
  ValueId numbers(std::vector<std::int64_t> contents) {
    const ValueId id = value("c" + std::to_string(model.values.size()), {static_cast<std::int64_t>(contents.size())},
                             Value::Role::constant, DataType::int64);
    model.values[id].integers = std::move(contents);
    model.values[id].contents_known = true;
    return id;
  }
  ValueId number(std::int64_t contents) {
    const ValueId id = numbers({contents});
    model.values[id].shape = {};
    return id;
  }
  ValueId boolean(bool contents) {
    const ValueId id = number(contents);
    model.values[id].type = DataType::boolean;
    return id;
  }
  /// A constant with one floating-point number.
  ValueId real(double contents) {
    const ValueId id = value("r" + std::to_string(model.values.size()), {}, Value::Role::constant);
    model.values[id].reals = {contents};
    if (contents == static_cast<double>(static_cast<std::int64_t>(contents))) {
      model.values[id].integers = {static_cast<std::int64_t>(contents)};
      model.values[id].contents_known = true;
    }
    return id;
  }
  ValueId reals(std::vector<double> contents) {
    const ValueId id = real(0.5);
    model.values[id].shape = {static_cast<std::int64_t>(contents.size())};
    model.values[id].reals = std::move(contents);
    return id;
  }

  /// Adds a node and returns the first of its outputs; the others have the next ids.
  ValueId node(const std::string& type, std::vector<ValueId> inputs, std::map<std::string, Attribute> attributes = {},
               std::size_t outputs = 1) {
    std::vector<ValueId> made;
    const std::string name = type + std::to_string(model.nodes.size());
    for (std::size_t i = 0; i < outputs; ++i) {
      model.values.push_back({.name = name + "." + std::to_string(i)});
      made.push_back(ValueId{model.values.size() - 1});
    }
    model.nodes.push_back({.name = name,
                           .type = type,
                           .inputs = std::move(inputs),
                           .outputs = made,
                           .attributes = std::move(attributes)});
    return made.empty() ? ValueId::none() : made.front();
  }

  const Shape& shape(ValueId id) const { return model.values[id].shape; }
};

using Numbers = std::vector<std::int64_t>;
inline Attribute whole(std::int64_t number) { return number; }

/// The types of the nodes, in order, separated by blanks.
inline std::string types_of(const Model& model) {
  std::string types;
  for (const Node& node : model.nodes) types += (types.empty() ? "" : " ") + node.type;
  return types;
}

}  // namespace trainyard::test
