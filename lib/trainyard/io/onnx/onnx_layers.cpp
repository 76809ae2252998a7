#include "trainyard/io/onnx/onnx_layers.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

namespace trainyard::onnx {

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

bool is_number(const std::string& part) { return !part.empty() && std::all_of(part.begin(), part.end(), digit); }

/// "layer1", "Mixed_5b", "encoder_layer_0": a number, perhaps with one letter behind it, ends the name.
bool is_numbered(const std::string& part) {
  if (part.empty()) return false;
  if (digit(part.back())) return true;
  return part.size() >= 2 && std::isalpha(static_cast<unsigned char>(part.back())) && digit(part[part.size() - 2]);
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// The modules of a path. A scope repeats its parent's name, "/layer1/layer1.0", which counts once.
std::vector<std::string> modules_of(std::string_view path) {
  std::vector<std::string> scopes;
  for (std::string& scope : split(path, '/')) {
    if (!scopes.empty() && scope.rfind(scopes.back() + ".", 0) == 0) scopes.pop_back();
    scopes.push_back(std::move(scope));
  }
  std::vector<std::string> modules;
  for (const std::string& scope : scopes)
    for (std::string& module : split(scope, '.')) modules.push_back(std::move(module));
  return modules;
}

/// A weight's name without its last part: "conv1.weight", "conv1/kernel".
std::string_view owner(std::string_view weight) {
  const std::size_t end = weight.find_last_of("./");
  return end == std::string_view::npos ? std::string_view{} : weight.substr(0, end);
}

/// For each value the parameter that it is a view of, if any.
IdMap<ValueId, ValueId> viewed_weights(const Model& model) {
  IdMap<ValueId, ValueId> weights(model.values.size());
  for (const ValueId id : model.values.ids())
    if (model.values[id].role == Value::Role::parameter) weights[id] = id;
  for (const Node& node : model.nodes) {
    const bool view = node.type == "Transpose" || node.type == "Slice" || node.type == "Reshape" ||
                      node.type == "Unsqueeze" || node.type == "Squeeze" || node.type == "Split";
    if (!view || node.inputs.empty() || node.inputs[0].is_none()) continue;
    for (const ValueId output : node.outputs)
      if (!output.is_none()) weights[output] = weights[node.inputs[0]];
  }
  return weights;
}

std::string own_layer(const Model& model, const Node& node, const IdMap<ValueId, ValueId>& weights) {
  if (!node.name.empty() && node.name[0] == '/') {
    const std::size_t end = node.name.rfind('/');
    if (end > 0) return layer_of_path(std::string_view{node.name}.substr(0, end));
  }
  for (const ValueId input : node.inputs) {
    if (input.is_none() || weights[input].is_none()) continue;
    const std::string& name = model.values[weights[input]].name;
    if (name.find("::") != std::string::npos) continue;  // made up by the exporter
    std::string layer = layer_of_path(owner(name));
    if (!layer.empty()) return layer;
  }
  return {};
}

/// "cell_7" is the eighth call of the module "cell" to PyTorch's exporter, where there is such a module; otherwise it
/// is a name of its own.
void join_calls(Model& model) {
  std::set<std::string> layers;
  for (const Node& node : model.nodes) layers.insert(node.layer);
  for (Node& node : model.nodes) {
    const std::size_t end = node.layer.rfind('_');
    if (end == std::string::npos || !is_number(node.layer.substr(end + 1))) continue;
    const std::string called = node.layer.substr(0, end);
    if (layers.count(called)) node.layer = called;
  }
}

}  // namespace

std::string layer_of_path(std::string_view path) {
  const std::vector<std::string> modules = modules_of(path);
  if (modules.empty()) return {};
  const auto at = std::find_if(modules.begin(), modules.end(), is_numbered);
  if (at == modules.end()) return modules.front();
  std::string layer;
  for (auto module = modules.begin(); module != modules.end(); ++module) {
    const bool belongs = module <= at || is_number(*module) || module->rfind(*(module - 1), 0) == 0;
    if (!belongs) break;
    layer += (layer.empty() ? "" : ".") + *module;
  }
  return layer;
}

void name_layers(Model& model) {
  const IdMap<ValueId, ValueId> weights = viewed_weights(model);
  IdMap<ValueId, NodeId> producer(model.values.size());
  for (const NodeId id : model.nodes.ids()) {
    Node& node = model.nodes[id];
    node.layer = own_layer(model, node, weights);
    for (const ValueId output : node.outputs)
      if (!output.is_none()) producer[output] = id;
    if (!node.layer.empty()) continue;
    for (const ValueId input : node.inputs) {
      if (input.is_none() || producer[input].is_none()) continue;
      node.layer = model.nodes[producer[input]].layer;
      if (!node.layer.empty()) break;
    }
  }
  // What comes before the first named node belongs to whom it serves: consumers first.
  for (std::size_t i = model.nodes.size(); i-- > 0;) {
    const Node& node = model.nodes[NodeId{i}];
    if (node.layer.empty()) continue;
    for (const ValueId input : node.inputs) {
      if (input.is_none() || producer[input].is_none()) continue;
      std::string& layer = model.nodes[producer[input]].layer;
      if (layer.empty()) layer = node.layer;
    }
  }
  join_calls(model);
}

}  // namespace trainyard::onnx
