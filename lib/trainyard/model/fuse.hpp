#pragma once

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Puts together what exporters take apart, and takes out what does nothing. Shape inference must have run.
///
///     Identity, Dropout that drops nothing, Pad by nothing            -> gone
///     ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add      -> LayerNormalization
///     x * (1 + erf(x / sqrt 2)) / 2, in any order of its products,
///     and its approximation with tanh                                 -> Gelu
///     MatMul by a matrix of parameters, with the Add of a vector
///     of parameters behind it or without                              -> Linear
///     constant Pad, AveragePool or MaxPool                            -> the pool, padding by itself
///
/// A pattern stays apart where anything else reads what flows inside it.
void fuse_patterns(Model& model);

}  // namespace trainyard
