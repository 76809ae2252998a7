#pragma once

#include <cstdint>

#include "trainyard/model/model.hpp"

namespace trainyard {

/// What a training step computes in. `tf32`: stored as float32, multiplied on tensor cores. `float16` and `bfloat16`
/// are mixed: an update has a float32 copy of the weights; float16 scales the loss (TrainingOptions::loss_scaling).
enum class Precision : std::uint8_t { float32, tf32, bfloat16, float16 };

/// What parameters and activations are stored as.
constexpr DataType stored_type(Precision precision) {
  if (precision == Precision::bfloat16) return DataType::bfloat16;
  return precision == Precision::float16 ? DataType::float16 : DataType::float32;
}

/// The model with its 32-bit floats as numbers of `type`, float32, float16 or bfloat16: parameters, activations,
/// inputs. What normalizations scale and shift by, and their running statistics, stay in 32 bits, as mixed-precision
/// training has them.
Model with_precision(Model model, DataType type);

}  // namespace trainyard
