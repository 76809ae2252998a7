#include "trainyard/model/check_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/error.hpp"
#include "trainyard/model/shape_inference.hpp"
#include "trainyard/model/shape_rules.hpp"

namespace trainyard {
namespace {

using detail::described;

class ModelChecker {
 public:
  explicit ModelChecker(const Model& model) : model_(model), inferred_(model), made_(model.values.size(), false) {}

  void run() {
    for (const Value& value : model_.values) try_to([&] { check_shape(value); });
    for (const auto* list : {&model_.inputs, &model_.outputs})
      for (const ValueId id : *list) try_to([&] { check_id(id, "a list of inputs or outputs"); });
    for (const Node& node : model_.nodes)
      for (const auto* list : {&node.inputs, &node.outputs})
        for (const ValueId id : *list)
          if (!id.is_none()) try_to([&] { check_id(id, described(node)); });
    if (findings_.empty()) {  // the checks below look values up
      for (const ValueId id : model_.inputs) made_[id] = true;
      for (const NodeId id : model_.nodes.ids()) try_to([&] { check_node(id); });
    }
    if (findings_.empty())  // a node with findings may not make its outputs
      for (const ValueId id : model_.outputs) try_to([&] { check_output(id); });
    if (!findings_.empty()) throw InputError(std::move(findings_));
  }

 private:
  template <class Check>
  void try_to(const Check& check) {
    if (findings_.size() == kMostFindings) return;
    try {
      check();
    } catch (const InputError& error) {
      findings_.push_back(error.findings().front());
    }
  }
  const std::string& name(ValueId id) const { return model_.values[id].name; }

  static void check_shape(const Value& value) {
    if (!value.shape_known) return;
    for (const std::int64_t extent : value.shape)
      if (extent < 0 || extent > kLargestDimension)
        refuse("range", fmt::format("'{}' has a dimension of {}", value.name, extent),
               "give dimensions from 0 to 2^40");
    if (value.shape.size() > kMostDimensions)
      refuse("range", fmt::format("'{}' has {} dimensions", value.name, value.shape.size()), "give at most 64");
    elements(value.shape);  // throws if it is too large
  }
  void check_id(ValueId id, const std::string& where) const {
    if (id.index() >= model_.values.size()) detail::refuse_value(model_, id, where);
  }

  void check_node(NodeId id) {
    const Node& node = model_.nodes[id];
    for (const ValueId input : node.inputs)
      if (!input.is_none() && model_.values[input].role == Value::Role::activation && !made_[input])
        refuse("order", fmt::format("{} reads '{}', which no node before it makes", described(node), name(input)),
               "put each node behind the nodes whose outputs it reads; give inputs the role input");
    for (const ValueId output : node.outputs) {
      if (output.is_none()) continue;
      if (made_[output])
        refuse("two-producers", fmt::format("{} makes '{}', which already exists", described(node), name(output)),
               "give each node its own outputs");
      made_[output] = true;
    }
    const auto known = [&](ValueId value) { return value.is_none() || model_.values[value].shape_known; };
    if (!std::ranges::all_of(node.inputs, known) || !std::ranges::all_of(node.outputs, known)) return;
    if (!has_shape_rule(node.type) && node.type.find("::") == std::string::npos)
      detail::refuse_operator(node, fmt::format("name the domain of a custom operator: 'my::{}'", node.type));
    infer_shapes(inferred_, id);
    for (const ValueId output : node.outputs) {
      if (output.is_none()) continue;
      Value& found = inferred_.values[output];
      const Shape& given = model_.values[output].shape;
      if (found.shape == given) continue;
      const std::string made = text_of(std::exchange(found.shape, given));
      refuse("shape-mismatch",
             fmt::format("{}: its output '{}' is {}, but its inputs give {}", described(node), name(output),
                         text_of(given), made),
             "let infer_shapes() fill in the shapes of outputs");
    }
  }

  void check_output(ValueId id) const {
    if (model_.values[id].role == Value::Role::activation && !made_[id])
      refuse("unknown-value", fmt::format("no node makes the output '{}', and it is not given", name(id)),
             "name outputs of nodes, inputs or parameters");
  }

  const Model& model_;
  Model inferred_;
  IdMap<ValueId, bool> made_;
  std::vector<Finding> findings_;
};

}  // namespace

void check_model(const Model& model) { ModelChecker{model}.run(); }

}  // namespace trainyard
