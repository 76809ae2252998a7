#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard::test {

/// A model built by hand, with given shapes.
///
///     ModelSketch net;
///     const ValueId x = net.input("x", {2, 3});
///     const ValueId y = net.node("Gemm", {x, net.parameter("w", {3, 4})}, {2, 4});
///     const Model model = net.finish({y});
class ModelSketch {
 public:
  ValueId input(std::string name, Shape shape, DataType type = DataType::float32) {
    const ValueId id = value(std::move(name), std::move(shape), Value::Role::input, type);
    model_.inputs.push_back(id);
    return id;
  }
  ValueId parameter(std::string name, Shape shape, DataType type = DataType::float32) {
    return value(std::move(name), std::move(shape), Value::Role::parameter, type);
  }
  ValueId buffer(std::string name, Shape shape) {
    return value(std::move(name), std::move(shape), Value::Role::buffer);
  }
  ValueId constant(std::vector<std::int64_t> contents) {
    const ValueId id = value("constant" + std::to_string(model_.values.size()),
                             {static_cast<std::int64_t>(contents.size())}, Value::Role::constant, DataType::int64);
    model_.values[id].integers = std::move(contents);
    model_.values[id].contents_known = true;
    return id;
  }
  /// Adds a node and returns its first output. The name is the type and the node's number: "Gemm2" is the third node.
  ValueId node(std::string type, std::vector<ValueId> inputs, Shape shape,
               std::map<std::string, Attribute> attributes = {}, DataType output = DataType::float32) {
    return nodes(std::move(type), std::move(inputs), {std::move(shape)}, std::move(attributes), output)[0];
  }
  std::vector<ValueId> nodes(std::string type, std::vector<ValueId> inputs, const std::vector<Shape>& shapes,
                             std::map<std::string, Attribute> attributes = {}, DataType output = DataType::float32) {
    const std::string name = type + std::to_string(model_.nodes.size());
    std::vector<ValueId> outputs;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      outputs.push_back(
          value(name + ".out" + (i ? std::to_string(i) : ""), shapes[i], Value::Role::activation, output));
    model_.nodes.push_back({.name = name,
                            .type = std::move(type),
                            .inputs = std::move(inputs),
                            .outputs = outputs,
                            .attributes = std::move(attributes)});
    return outputs;
  }
  const Shape& shape(ValueId id) const { return model_.values[id].shape; }
  const Node& last_node() const { return *(model_.nodes.end() - 1); }
  const Model& model() const { return model_; }

  Model finish(std::vector<ValueId> outputs) {
    model_.name = "sketch";
    model_.outputs = std::move(outputs);
    return model_;
  }

 private:
  ValueId value(std::string name, Shape shape, Value::Role role, DataType type = DataType::float32) {
    const ValueId id{model_.values.size()};
    model_.values.push_back(
        {.name = std::move(name), .type = type, .shape = std::move(shape), .shape_known = true, .role = role});
    return id;
  }

  Model model_;
};

}  // namespace trainyard::test
