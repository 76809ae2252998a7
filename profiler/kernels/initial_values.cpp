#include "profiler/kernels/initial_values.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/kernels/arrays.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::kernels {
namespace {

/// How nodes use a value, directly or through views.
struct Uses {
  bool scales = false, shifts = false, is_variance = false, is_mean = false;  // of normalizations
  bool divides_or_multiplies = false, is_condition = false;
  std::int64_t below = 0;  // exclusive upper bound of an index; 0: not an index
};

/// The node's use of its input `i`; `all`: uses by later nodes.
Uses use_of(const Model& model, const Node& node, std::size_t i, const IdMap<ValueId, Uses>& all) {
  Uses use;
  const Shape& first = model.values[node.inputs[0]].shape;
  if (node.type.ends_with("Normalization")) {
    use.scales = i == 1, use.shifts = i == 2, use.is_mean = i == 3, use.is_variance = i == 4;
  } else if (node.type.starts_with("Gather") && i == 1 && !first.empty() && !node.has_attribute("first_row")) {
    const auto axis = axis_at(node.integer("axis", 0), first.size());
    use.below = node.type == "GatherND" ? *std::min_element(first.begin(), first.end()) : first[axis];
  } else if (node.type == "SoftmaxCrossEntropy" && i == 1) {
    use.below = first.size() == 4 ? first[1] : first.back();
  } else if ((node.type == "SoftmaxCrossEntropyLoss" || node.type == "NegativeLogLikelihoodLoss") && i == 1) {
    use.below = first[std::min<std::size_t>(1, first.size() - 1)];
  } else if (node.type == "Mul" || node.type == "Div" || node.type == "Pow") {
    use.divides_or_multiplies = true;
  } else if (node.type == "Where" && i == 0) {
    use.is_condition = true;
  } else if (node.type == "Cast" && !is_floating_point(model.values[node.inputs[i]].type)) {
    use.below = all[node.outputs[0]].below;
  }
  return use;
}

void add(Uses& to, const Uses& use) {
  to.scales |= use.scales, to.shifts |= use.shifts, to.is_mean |= use.is_mean, to.is_variance |= use.is_variance;
  to.divides_or_multiplies |= use.divides_or_multiplies, to.is_condition |= use.is_condition;
  if (use.below > 0) to.below = to.below == 0 ? use.below : std::min(to.below, use.below);
}

IdMap<ValueId, Uses> all_uses(const Model& model) {
  const auto roots = storage_roots(model);
  IdMap<ValueId, Uses> uses(model.values.size());
  for (std::size_t n = model.nodes.size(); n-- > 0;) {  // backwards, so that uses of a cast's output are known
    const Node& node = model.nodes[NodeId{n}];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input.is_none()) continue;
      const Uses use = use_of(model, node, i, uses);
      add(uses[input], use);
      if (roots[input] != input) add(uses[roots[input]], use);
    }
  }
  return uses;
}

InitialValues initial_values(const Value& value, const Uses& uses) {
  using Rule = InitialValues::Rule;
  if (value.role == Value::Role::input) {
    if (is_floating_point(value.type)) return {Rule::normal};
    return {Rule::below, 0, std::max<std::int64_t>(2, uses.below)};
  }
  const auto count = static_cast<std::size_t>(elements(value.shape));
  if (value.contents_known && value.integers.size() == count) return {Rule::integers};
  if (!value.reals.empty() && value.reals.size() == count) return {Rule::reals};
  if (uses.scales || uses.is_variance || uses.is_condition ||
      (value.role == Value::Role::constant && uses.divides_or_multiplies))
    return {Rule::filled, 1};
  if (value.role != Value::Role::parameter || uses.shifts || uses.is_mean) return {Rule::filled, 0};
  // Fan-in: the product of all dimensions except the first (convolutions), or the larger dimension of a matrix
  // (products).
  double fan = 1;
  for (std::size_t i = 1; i < value.shape.size(); ++i) fan *= static_cast<double>(value.shape[i]);
  if (value.shape.size() == 2) fan = static_cast<double>(std::max(value.shape[0], value.shape[1]));
  return {Rule::uniform, value.shape.size() < 2 ? 0.1 : std::sqrt(3.0 / std::max(1.0, fan))};
}

}  // namespace

IdMap<ValueId, InitialValues> initial_values(const Model& model) {
  const IdMap<ValueId, Uses> uses = all_uses(model);
  IdMap<ValueId, InitialValues> first(model.values.size());
  for (const ValueId id : model.values.ids()) {
    const Value& value = model.values[id];
    if (value.role != Value::Role::activation && value.shape_known) first[id] = initial_values(value, uses[id]);
  }
  return first;
}

}  // namespace trainyard::kernels
