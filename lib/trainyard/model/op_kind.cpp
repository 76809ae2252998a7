#include "trainyard/model/op_kind.hpp"

#include <algorithm>
#include <array>

#include "trainyard/core/error.hpp"

namespace trainyard {
namespace {

template <std::size_t N>
bool one_of(std::string_view type, const std::array<std::string_view, N>& types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

/// True if the value is a constant of one element equal to `number`.
bool holds_number(const Model& model, ValueId id, std::int64_t number) {
  if (id.is_none()) return false;
  const Value& value = model.values[id];
  if (value.reals.size() == 1) return value.reals[0] == static_cast<double>(number);
  return value.contents_known && value.integers.size() == 1 && value.integers[0] == number;
}

bool same_size(const Model& model, const Node& node) {
  return element_count(model.values[node.inputs[0]]) == element_count(model.values[node.outputs[0]]);
}

}  // namespace

bool drops(const Model& model, const Node& node) {
  if (holds_number(model, input_at(node, 1), 0) || node.real("ratio", 0.5) <= 0) return false;
  if (const ValueId mode = input_at(node, 2); !mode.is_none()) return !holds_number(model, mode, 0);
  return node.integer("training_mode", model.from_inference_export ? 0 : 1) != 0;
}

bool uses_batch_statistics(const Model& model, const Node& node) {
  return node.integer("training_mode", model.from_inference_export ? 0 : 1) != 0;
}

ViewKind view_kind(const Model& model, const Node& node) {
  static constexpr std::array<std::string_view, 6> kAliases{"Reshape",   "Flatten",  "Squeeze",
                                                            "Unsqueeze", "Identity", "Transpose"};
  if (input_at(node, 0).is_none() || node.outputs.empty() || node.outputs[0].is_none()) return ViewKind::none;
  if (one_of(node.type, kAliases)) return ViewKind::alias;
  if (node.type == "Dropout") return drops(model, node) ? ViewKind::none : ViewKind::alias;
  if (node.type == "Cast" || node.type == "CastLike") {
    const bool changes = model.values[node.inputs[0]].type != model.values[node.outputs[0]].type;
    return changes ? ViewKind::none : ViewKind::alias;
  }
  if (node.type == "Slice" || node.type == "Split") return same_size(model, node) ? ViewKind::alias : ViewKind::slice;
  if (node.type == "Expand") return same_size(model, node) ? ViewKind::alias : ViewKind::spread;
  if (node.type == "Gather") {
    const ValueId index = input_at(node, 1);
    const bool one_known_index =
        !index.is_none() && model.values[index].contents_known && model.values[index].integers.size() == 1;
    if (one_known_index) return same_size(model, node) ? ViewKind::alias : ViewKind::slice;
  }
  return ViewKind::none;
}

IdMap<ValueId, ValueId> storage_roots(const Model& model) {
  IdMap<ValueId, ValueId> roots(model.values.size());
  for (const ValueId value : model.values.ids()) roots[value] = value;
  for (const Node& node : model.nodes) {
    if (!is_view(model, node)) continue;
    for (const ValueId output : node.outputs)
      if (!output.is_none()) roots[output] = roots[node.inputs[0]];
  }
  return roots;
}

bool is_matmul_like(std::string_view type) {
  static constexpr std::array<std::string_view, 8> kTypes{"Conv",   "ConvTranspose", "Gemm", "Linear",
                                                          "MatMul", "LSTM",          "GRU",  "RNN"};
  return one_of(type, kTypes);
}

std::int64_t element_count(const Value& value) {
  if (!value.shape_known)
    refuse("unknown-shape", "the shape of '" + value.name + "' is not known",
           "bind the symbolic dimensions of the inputs, and run shape inference first");
  return elements(value.shape);
}

Bytes byte_count(const Value& value) { return Bytes{element_count(value) * bytes_per_element(value.type)}; }

std::vector<std::int64_t> numbers_of(const Model& model, const Node& node, const char* key, std::size_t input) {
  if (node.has_attribute(key)) return node.integers(key);
  const ValueId id = input_at(node, input);
  return id.is_none() ? std::vector<std::int64_t>{} : model.values[id].integers;
}

}  // namespace trainyard
