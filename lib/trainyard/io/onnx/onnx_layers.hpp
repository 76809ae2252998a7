#pragma once

#include <string>
#include <string_view>

#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// The layer in a path of modules: up to its first numbered part, and the numbers that follow at once.
/// "layer1.0.conv1" and "/layer1/layer1.0/conv1" are both in "layer1.0"; "encoder.layers.5.mlp" is in
/// "encoder.layers.5"; "fc" in itself. Empty for an empty path.
std::string layer_of_path(std::string_view path);

/// Fills every node's layer: from its name where that is a path ("/layer1/layer1.0/conv1/Conv"), else from the name of
/// its weight ("layer1.0.conv1.weight"), else from the node that its first input comes from, or its output goes to.
void name_layers(Model& model);

}  // namespace trainyard::onnx
