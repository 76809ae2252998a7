#pragma once

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Fuses the op patterns into which exporters decompose one op, and removes ops that do nothing. Shape inference must
/// have run.
///
///     Identity, Dropout that drops nothing, Pad by nothing            -> removed
///     ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add      -> LayerNormalization
///     x * (1 + erf(x / sqrt 2)) / 2, in any order of its products,
///     and its approximation with tanh                                 -> Gelu
///     MatMul by a matrix of parameters, with or without a following
///     Add of a vector of parameters                                   -> Linear
///     constant Pad, then AveragePool or MaxPool                       -> the pool with that padding
///
/// A pattern is left as it is if a node outside it reads one of its intermediate values.
void fuse_patterns(Model& model);

}  // namespace trainyard
