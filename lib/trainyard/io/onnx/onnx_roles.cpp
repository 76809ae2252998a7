#include "trainyard/io/onnx/onnx_roles.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "trainyard/core/text.hpp"

namespace trainyard::onnx {

namespace {

/// Uses of a value as bits, since a value may have several.
enum Use : std::uint8_t {
  kWeight = 1,      // as a weight, also through views
  kOnlyWeight = 2,  // directly, at an input that only weights take
  kStatistic = 4,   // a running statistic
};

struct Place {
  std::string_view type;
  std::size_t first, last;  // range of inputs, both ends included
  std::uint8_t uses;
};

constexpr std::array<Place, 17> kPlaces = {{{"Conv", 1, 2, kWeight | kOnlyWeight},
                                            {"ConvTranspose", 1, 2, kWeight | kOnlyWeight},
                                            {"Gemm", 1, 2, kWeight},
                                            {"MatMul", 1, 1, kWeight},
                                            {"BatchNormalization", 1, 2, kWeight | kOnlyWeight},
                                            {"BatchNormalization", 3, 4, kStatistic},
                                            {"LayerNormalization", 1, 2, kWeight | kOnlyWeight},
                                            {"RMSNormalization", 1, 1, kWeight | kOnlyWeight},
                                            {"GroupNormalization", 1, 2, kWeight | kOnlyWeight},
                                            {"InstanceNormalization", 1, 2, kWeight | kOnlyWeight},
                                            {"LSTM", 1, 3, kWeight | kOnlyWeight},
                                            {"LSTM", 7, 7, kWeight | kOnlyWeight},
                                            {"GRU", 1, 3, kWeight | kOnlyWeight},
                                            {"RNN", 1, 3, kWeight | kOnlyWeight},
                                            {"PRelu", 1, 1, kWeight | kOnlyWeight},
                                            {"Gather", 0, 0, kWeight},
                                            {"Einsum", 1, 1, kWeight}}};

bool passes_weights(const std::string& type) {
  static constexpr std::array<std::string_view, 9> kTypes = {"Transpose", "Slice",   "Reshape",  "Squeeze", "Unsqueeze",
                                                             "Split",     "Flatten", "Identity", "Concat"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

IdMap<ValueId, std::uint8_t> uses_of(const Model& model) {
  IdMap<ValueId, std::uint8_t> uses(model.values.size());
  const auto mark = [&](ValueId id, unsigned bits) {
    if (!id.is_none()) uses[id] = static_cast<std::uint8_t>(uses[id] | bits);
  };
  for (std::size_t i = model.nodes.size(); i-- > 0;) {
    const Node& node = model.nodes[NodeId{i}];
    for (const Place& place : kPlaces) {
      if (place.type != node.type) continue;
      for (std::size_t input = place.first; input <= place.last && input < node.inputs.size(); ++input)
        mark(node.inputs[input], place.uses);
    }
    if (!passes_weights(node.type)) continue;
    unsigned passed = 0;
    for (const ValueId output : node.outputs) passed |= output.is_none() ? 0U : uses[output];
    const std::size_t count = node.type == "Concat" ? node.inputs.size() : std::min<std::size_t>(node.inputs.size(), 1);
    for (std::size_t input = 0; input < count; ++input) mark(node.inputs[input], passed & kWeight);
  }
  return uses;
}

bool contains_any(const std::string& name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

bool named_as_statistic(const std::string& name) {
  return contains_any(detail::lower_case(name),
                      {"running_mean", "running_var", "num_batches_tracked", "moving_mean", "moving_var"});
}

bool named_as_weight(const std::string& name) {
  return contains_any(detail::lower_case(name), {"weight", "bias", "gamma", "beta", "kernel", "::"});
}

/// Whether the name is that of a module's attribute ("encoder.0.weight", "conv1/bias"), not one that users give inputs.
bool named_as_attribute(const std::string& name) {
  const std::size_t dot = name.find_last_of("./");
  if (dot == std::string::npos || dot + 1 >= name.size()) return false;
  return contains_any(detail::lower_case(name.substr(dot + 1)), {"weight", "bias", "gamma", "beta", "kernel"});
}

using Role = Value::Role;

Role weight_role(const Value& value, std::uint8_t uses, const RoleHints& hints) {
  if (hints.buffers.count(value.name)) return Role::buffer;
  if (hints.trained.count(value.name)) return Role::parameter;
  if (named_as_statistic(value.name)) return Role::buffer;
  if (!is_floating_point(value.type) || hints.file_names_weights) return Role::constant;
  if (uses & kStatistic) return Role::buffer;
  const bool lone = value.shape_known && elements(value.shape) <= 1;
  return lone && !(uses & kWeight) && !named_as_weight(value.name) ? Role::constant : Role::parameter;
}

Role input_role(const Value& value, std::uint8_t uses, const RoleHints& hints) {
  if (hints.buffers.count(value.name)) return Role::buffer;
  if (hints.trained.count(value.name)) return Role::parameter;
  if (!hints.inputs.empty() && hints.inputs.count(value.name)) return Role::input;
  if (named_as_statistic(value.name) || (uses & kStatistic)) return Role::buffer;
  if (hints.file_names_weights && hints.inputs.empty()) return Role::input;
  if (!hints.inputs.empty()) return is_floating_point(value.type) ? Role::parameter : Role::constant;
  if (!is_floating_point(value.type)) return Role::input;
  const bool weight =
      (uses & kOnlyWeight) || ((uses & kWeight) && named_as_weight(value.name)) || named_as_attribute(value.name);
  return weight ? Role::parameter : Role::input;
}

}  // namespace

void assign_roles(Model& model, const RoleHints& hints) {
  const IdMap<ValueId, std::uint8_t> uses = uses_of(model);
  for (const ValueId id : hints.weights) model.values[id].role = weight_role(model.values[id], uses[id], hints);
  model.inputs.clear();
  for (const ValueId id : hints.graph_inputs) {
    model.values[id].role = input_role(model.values[id], uses[id], hints);
    if (model.values[id].role == Role::input) model.inputs.push_back(id);
  }
}

std::size_t separate_merged_weights(Model& model) {
  IdMap<ValueId, std::uint32_t> others(model.values.size());  // uses other than by an Identity
  for (const Node& node : model.nodes) {
    if (node.type == "Identity") continue;
    for (const ValueId input : node.inputs)
      if (!input.is_none()) ++others[input];
  }
  IdMap<ValueId, std::uint8_t> taken(model.values.size());
  IdMap<NodeId, std::uint8_t> dead(model.nodes.size());
  IdMap<ValueId, ValueId> instead(model.values.size());
  IdMap<ValueId, std::uint8_t> is_output(model.values.size());
  for (const ValueId id : model.outputs) is_output[id] = 1;
  std::size_t separated = 0;
  for (const NodeId id : model.nodes.ids()) {
    Node& node = model.nodes[id];
    for (ValueId& input : node.inputs)
      if (!input.is_none() && !instead[input].is_none()) input = instead[input];
    if (node.type != "Identity" || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    const ValueId from = node.inputs[0], to = node.outputs[0];
    if (from.is_none() || to.is_none() || is_output[to]) continue;
    const Value& weight = model.values[from];
    if (weight.role != Role::parameter && weight.role != Role::buffer) continue;
    dead[id] = 1;
    // For a weight without other uses, the first Identity stands for the weight itself.
    if (others[from] == 0 && !std::exchange(taken[from], std::uint8_t{1})) {
      instead[to] = from;
      continue;
    }
    Value copy = weight;
    copy.name = model.values[to].name;
    model.values[to] = std::move(copy);
    ++separated;
  }
  remove_nodes(model, dead);
  return separated;
}

}  // namespace trainyard::onnx
