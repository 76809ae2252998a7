#pragma once

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Throws InputError, with up to kMostFindings findings, unless the model is what a reader or infer_shapes() leaves:
/// "unknown-value" (an id beyond the values, or an output that no node makes), "order" (a node reads what no node
/// before it makes), "two-producers", "too-large" and "range" (a shape), "unknown-operator" (a type that is neither
/// known nor of a domain, as in "my::Fused"), and for a node whose shapes are all known as infer_shapes() does, or
/// "shape-mismatch" where an output has another shape than it infers.
void check_model(const Model& model);

}  // namespace trainyard
