#pragma once

#include "trainyard/model/model.hpp"

namespace trainyard {

/// The model with its 32-bit floats as numbers of `type`, float32 or bfloat16: parameters, activations, inputs. What
/// normalizations scale and shift by, and their running statistics, stay in 32 bits, as mixed-precision training has
/// them.
Model with_precision(Model model, DataType type);

}  // namespace trainyard
