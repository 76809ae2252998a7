#include <array>

#include "profiler/kernels/arrays.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::kernels {
namespace {

std::string recurrent(const Node& node) {
  if (node.integer("layout", 0) != 0) return "with layout 1";
  if (!input_at(node, 4).is_none()) return "with sequence lengths";
  if (node.type == "LSTM" && !input_at(node, 7).is_none()) return "with peepholes";
  if (node.has_attribute("clip") && node.real("clip", 0) > 0) return "with clipping";
  if (node.integer("input_forget", 0) != 0) return "with input_forget";
  const auto given = node.attributes.find("activations");
  if (given == node.attributes.end()) return "";
  const auto* names = std::get_if<std::vector<std::string>>(&given->second);
  if (!names) return "";
  static constexpr std::array kLstm{"Sigmoid", "Tanh", "Tanh"}, kGru{"Sigmoid", "Tanh", "Sigmoid"};
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    const bool known = node.type == "RNN"    ? (name == "Tanh" || name == "Relu") && name == names->front()
                       : node.type == "LSTM" ? name == kLstm[i % 3]
                                             : name == kGru[i % 2];
    if (!known) return "with the activation " + name;
  }
  return "";
}

std::string resize(const Node& node) {
  if (node.integer("antialias", 0) != 0) return "with antialias";
  if (node.integer("exclude_outside", 0) != 0) return "with exclude_outside";
  const std::string place = node.text("coordinate_transformation_mode", "half_pixel");
  return place == "tf_crop_and_resize" || place == "tf_half_pixel_for_nn"
             ? "with coordinate_transformation_mode " + place
             : "";
}

/// Kernels align operands at their last dimensions, as operators do since opset 7.
std::string alignment(const Model& model, const Node& node) {
  if (node.inputs.size() != 2) return "";
  const Shape &a = model.values[node.inputs[0]].shape, &b = model.values[node.inputs[1]].shape;
  if (node.type == "PRelu" && b.size() == 1 && a.size() > 1 && b[0] != 1 && b[0] != a.back())
    return "with one slope per channel and no dimensions after the channels";
  if (node.integer("broadcast", 0) == 0 || !node.has_attribute("axis")) return "";
  return axis_at(node.integer("axis", 0), a.size()) + b.size() == a.size() ? "" : "with operands aligned at an axis";
}

std::string attention(const Node& node) {
  for (const std::size_t i : {std::size_t{4}, std::size_t{5}})
    if (!input_at(node, i).is_none()) return "with past keys";
  if (node.real("softcap", 0) != 0) return "with softcap";
  return "";
}

}  // namespace

std::string why_not(const Model& model, const Node& node) {
  if (node.type == "LSTM" || node.type == "GRU" || node.type == "RNN") return recurrent(node);
  if (node.type == "Resize") return resize(node);
  if (node.type == "Attention") return attention(node);
  if (node.type == "MaxPool")  // the order in which the second output counts positions
    return node.outputs.size() > 1 && !node.outputs[1].is_none() && node.integer("storage_order", 0) != 0
               ? "with storage_order 1"
               : "";
  if (node.type.starts_with("Scatter")) {
    const std::string reduction = node.text("reduction", "none");
    return reduction == "none" || reduction == "add" ? "" : "with the reduction " + reduction;
  }
  const bool is_loss = node.type.starts_with("SoftmaxCrossEntropy") || node.type == "NegativeLogLikelihoodLoss";
  if (is_loss && !input_at(node, 2).is_none()) return "with class weights";
  if (node.type == "PRelu" || node.has_attribute("broadcast")) return alignment(model, node);
  return "";
}

}  // namespace trainyard::kernels
