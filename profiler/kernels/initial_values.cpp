#include "profiler/kernels/initial_values.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/kernels/arrays.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::kernels {
namespace {

/// Uses of a value by nodes, directly or through views.
struct Uses {
  bool scales = false, shifts = false, is_variance = false, is_mean = false;  // of normalizations
  bool divides_or_multiplies = false, is_condition = false;
  std::int64_t below = 0;  // as an index: the numbers that it may have; 0: it is no index
};

Uses uses_of(const Model& model, ValueId of) {
  const auto roots = storage_roots(model);
  Uses uses;
  for (const Node& node : model.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_none() || (roots[node.inputs[i]] != of && node.inputs[i] != of)) continue;
      const auto at_most = [&](std::int64_t count) {
        uses.below = uses.below == 0 ? count : std::min(uses.below, count);
      };
      const Shape& first = model.values[node.inputs[0]].shape;
      if (node.type.ends_with("Normalization")) {
        uses.scales |= i == 1, uses.shifts |= i == 2, uses.is_mean |= i == 3, uses.is_variance |= i == 4;
      } else if (node.type.starts_with("Gather") && i == 1 && !first.empty() && !node.has_attribute("first_row")) {
        const auto axis = axis_at(node.integer("axis", 0), first.size());
        at_most(node.type == "GatherND" ? *std::min_element(first.begin(), first.end()) : first[axis]);
      } else if (node.type == "SoftmaxCrossEntropy" && i == 1) {
        at_most(first.size() == 4 ? first[1] : first.back());
      } else if ((node.type == "SoftmaxCrossEntropyLoss" || node.type == "NegativeLogLikelihoodLoss") && i == 1) {
        at_most(first[std::min<std::size_t>(1, first.size() - 1)]);
      } else if (node.type == "Mul" || node.type == "Div" || node.type == "Pow") {
        uses.divides_or_multiplies = true;
      } else if (node.type == "Where" && i == 0) {
        uses.is_condition = true;
      } else if (node.type == "Cast" && !is_floating_point(model.values[node.inputs[i]].type)) {
        const Uses next = uses_of(model, node.outputs[0]);
        if (next.below > 0) at_most(next.below);
      }
    }
  return uses;
}

}  // namespace

InitialValues initial_values(const Model& model, ValueId id) {
  using Rule = InitialValues::Rule;
  const Value& value = model.values[id];
  if (value.role == Value::Role::input) {
    if (is_floating_point(value.type)) return {Rule::normal};
    return {Rule::below, 0, std::max<std::int64_t>(2, uses_of(model, id).below)};
  }
  const auto count = static_cast<std::size_t>(elements(value.shape));
  if (value.contents_known && value.integers.size() == count) return {Rule::integers};
  if (!value.reals.empty() && value.reals.size() == count) return {Rule::reals};
  const Uses uses = uses_of(model, id);
  if (uses.scales || uses.is_variance || uses.is_condition ||
      (value.role == Value::Role::constant && uses.divides_or_multiplies))
    return {Rule::filled, 1};
  if (value.role != Value::Role::parameter || uses.shifts || uses.is_mean) return {Rule::filled, 0};
  // Inputs of a unit: all dimensions but the first (convolutions), or the first (products).
  double fan = 1;
  for (std::size_t i = 1; i < value.shape.size(); ++i) fan *= static_cast<double>(value.shape[i]);
  if (value.shape.size() == 2) fan = static_cast<double>(std::max(value.shape[0], value.shape[1]));
  return {Rule::uniform, value.shape.size() < 2 ? 0.1 : std::sqrt(3.0 / std::max(1.0, fan))};
}

}  // namespace trainyard::kernels
