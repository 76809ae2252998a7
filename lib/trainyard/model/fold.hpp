#pragma once

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Takes out the nodes whose results are known before the run (the arguments of Reshape, Slice and their like), which
/// become constants, and then those that nothing uses. Shape inference must have run: it finds the contents.
void fold_constants(Model& model);

}  // namespace trainyard
