#pragma once

#include <string_view>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Fills in shape and type of every node's outputs from those of its inputs, by the rules of ONNX. It also follows the
/// contents of small arrays (up to kMostContents elements) that result from shapes and literals, as exporters mostly
/// compute the arguments of Reshape, Slice and similar ops in this way. Nodes must be in topological order.
///
/// An output keeps a shape that it already has if the rule of its node cannot determine one: the operator has no rule,
/// or the shape depends on the data. Throws InputError with up to kMostFindings findings, each naming node, operator
/// and reason: "unknown-operator", "unknown-shape" (depends on contents that are not known before the run),
/// "shape-mismatch" (the inputs do not fit the operator), "attribute", "too-large", "unknown-value" (an id beyond the
/// values).
void infer_shapes(Model& model);

/// Infers the outputs of one node. The shapes of its inputs must be known.
void infer_shapes(Model& model, NodeId node);

/// True if the operator has a rule.
bool has_shape_rule(std::string_view type);

/// Adds a note on the assumed costs of each operator type without a rule.
void note_unknown_operators(Model& model);

/// Largest number of elements of an array whose contents are followed.
inline constexpr std::int64_t kMostContents = 1024;

}  // namespace trainyard
