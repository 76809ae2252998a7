#include "trainyard/io/onnx/onnx_mode.hpp"

#include <vector>

namespace trainyard::onnx {

namespace {

bool has_input(const Node& node, std::size_t input) {
  return node.inputs.size() > input && !node.inputs[input].is_none();
}

/// Whether a Dropout or BatchNormalization is in inference mode.
bool is_frozen(const Model& model, const Node& node) {
  if (node.type == "Dropout" && has_input(node, 2)) {
    const Value& mode = model.values[node.inputs[2]];
    return mode.contents_known && mode.integers == std::vector<std::int64_t>{0};
  }
  return node.integer("training_mode", 1) == 0;
}

}  // namespace

void state_mode(Node& node, std::int64_t opset) {
  if (node.type != "Dropout" && node.type != "BatchNormalization") return;
  if (opset < 7 && node.has_attribute("is_test")) {
    node.attributes["training_mode"] = std::int64_t{node.integer("is_test", 0) == 0};
  } else if (node.type == "Dropout") {
    if (opset >= 12 && !has_input(node, 2)) node.attributes["training_mode"] = std::int64_t{0};
  } else if (opset >= 14) {
    node.attributes["training_mode"] = node.integer("training_mode", 0);
  } else {
    node.attributes["training_mode"] = std::int64_t{node.outputs.size() > 1};
  }
}

void note_inference_export(Model& model) {
  bool trains = false, frozen = false, folded = false;
  for (const Node& node : model.nodes) {
    if (node.type == "Dropout" || node.type == "BatchNormalization") (is_frozen(model, node) ? frozen : trains) = true;
    // PyTorch's exporter gives this name to weights that it has computed.
    if (node.type == "Conv" && has_input(node, 1) && has_input(node, 2))
      folded = folded || model.values[node.inputs[1]].name.rfind("onnx::Conv_", 0) == 0;
  }
  model.from_inference_export = !trains && (frozen || folded);
  if (model.from_inference_export) {
    model.notes.emplace_back(folded ? "this was exported for inference: batch norms are folded into convolutions, so "
                                      "it differs from the network that is trained; export it in training mode"
                                    : "this was exported for inference: its dropouts and batch norms are frozen; "
                                      "export it in training mode to include them as in training");
  } else if (!trains) {
    model.notes.emplace_back(
        "the graph has no dropout and no batch norm; if the network has them, export it in training mode");
  }
}

}  // namespace trainyard::onnx
