#pragma once

#include <cstdint>

#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// Sets the attribute "training_mode" of a Dropout or BatchNormalization, whose mode is encoded in three ways depending
/// on the opset. It stays unset for a Dropout that has an input for it, or whose opset (7 to 11) leaves it open.
void state_mode(Node& node, std::int64_t opset);

/// Looks for signs of an export for inference: frozen norms and dropouts, or convolutions into which norms are folded.
/// Sets `from_inference_export` and adds a note that explains the consequence.
void note_inference_export(Model& model);

}  // namespace trainyard::onnx
