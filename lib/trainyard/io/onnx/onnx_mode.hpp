#pragma once

#include <cstdint>

#include "trainyard/model/model.hpp"

namespace trainyard::onnx {

/// Whether a Dropout or BatchNormalization trains is said in three ways, by opset; afterwards "training_mode" says it,
/// except where a Dropout has an input for it, or its opset (7 to 11) leaves it open.
void state_mode(Node& node, std::int64_t opset);

/// Finds signs of an export for inference: frozen norms and dropouts, convolutions with norms folded into them. Sets
/// `from_inference_export`, and notes what that means.
void note_inference_export(Model& model);

}  // namespace trainyard::onnx
