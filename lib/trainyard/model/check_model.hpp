#pragma once

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Checks that the model is one that a reader or infer_shapes() could have produced. Throws InputError with up to
/// kMostFindings findings: "unknown-value" (an id beyond the values, or an output that no node makes), "order" (a node
/// reads a value that no earlier node makes), "two-producers", "too-large" and "range" (a shape), "unknown-operator" (a
/// type that is neither known nor has a domain, as in "my::Fused"). A node whose shapes are all known is also inferred
/// again: this throws as infer_shapes() does, and "shape-mismatch" if an output's shape differs from the inferred one.
void check_model(const Model& model);

}  // namespace trainyard
