#pragma once

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Constant folding: nodes whose results are known before the run (the arguments of Reshape, Slice and similar ops)
/// become constants. Nodes whose results nothing uses are then removed. Needs the contents that shape inference finds,
/// so run that first.
void fold_constants(Model& model);

}  // namespace trainyard
