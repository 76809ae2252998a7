#pragma once

#include <cstdint>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// Arithmetic of a training step. `tf32`: stored as float32, multiplied on tensor cores. `float16` and `bfloat16` are
/// mixed precision: the update keeps a float32 copy of the weights. `float16` also scales the loss
/// (TrainingOptions::loss_scaling).
enum class Precision : std::uint8_t { float32, tf32, bfloat16, float16 };

/// The type in which parameters and activations are stored.
constexpr DataType stored_type(Precision precision) {
  if (precision == Precision::bfloat16) return DataType::bfloat16;
  return precision == Precision::float16 ? DataType::float16 : DataType::float32;
}

/// The model with its float32 values (parameters, activations, inputs) changed to `type`: float32, float16 or bfloat16.
/// Scale, shift and running statistics of normalizations stay in float32, as in mixed-precision training.
Model with_precision(Model model, DataType type);

}  // namespace trainyard
