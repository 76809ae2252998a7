#pragma once

#include <string_view>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Fills shape and type of every node's outputs from those of its inputs, by the rules of ONNX, and the contents of
/// small arrays that follow from shapes and literals (up to kMostContents elements): arguments of Reshape, Slice and
/// their like are mostly computed so. Nodes must be in topological order.
///
/// A shape that an output already has stands where the node's own rule cannot tell: an operator without a rule, or a
/// shape that depends on the data. Throws InputError with up to kMostFindings findings, each naming node, operator and
/// reason: "unknown-operator", "unknown-shape" (it depends on contents that are not known before the run),
/// "shape-mismatch" (the inputs do not fit the operator), "attribute", "too-large", "unknown-value" (an id beyond the
/// values).
void infer_shapes(Model& model);

/// Infers the outputs of one node, whose inputs' shapes are known.
void infer_shapes(Model& model, NodeId node);

/// True if there is a rule for the operator.
bool has_shape_rule(std::string_view type);

/// Arrays up to this many elements have their contents followed.
inline constexpr std::int64_t kMostContents = 1024;

}  // namespace trainyard
