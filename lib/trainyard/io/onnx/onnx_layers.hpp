#pragma once

#include <string>
#include <string_view>

#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// The layer in a path of modules: the path up to its first numbered module, and directly following modules that are
/// numbers or extend the previous name. "layer1.0.conv1" and "/layer1/layer1.0/conv1" are both in "layer1.0",
/// "encoder.layers.5.mlp" is in "encoder.layers.5", and "fc" is in "fc". Empty for an empty path.
std::string layer_of_path(std::string_view path);

/// Sets every node's layer: from its name if that is a path ("/layer1/layer1.0/conv1/Conv"), otherwise from the name of
/// its weight ("layer1.0.conv1.weight"), otherwise from the first of its producers that has a layer, otherwise from its
/// consumers.
void name_layers(Model& model);

}  // namespace trainyard::onnx
