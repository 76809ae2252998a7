#pragma once

#include <cstdint>
#include <string_view>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Update rules of optimizers. P is the number of elements of a parameter.
///
///     sgd        2 P FLOPs: reads gradient and weight, writes the weight
///     momentum   4 P FLOPs: also reads and writes 4 P bytes of state
///     adam      12 P FLOPs: also reads and writes 8 P bytes of state
///
/// State is fp32. For parameters of 2 bytes it includes an fp32 copy of the parameters (mixed precision: 16 bytes per
/// parameter with Adam, gradient included).
enum class Optimizer : std::uint8_t {
  none,  // no training: the forward graph alone, without loss
  sgd,
  momentum,
  adam,
};

/// The optimizer with this name. Throws InputError ("unknown-optimizer").
Optimizer find_optimizer(std::string_view name);
std::string_view name_of(Optimizer optimizer);
/// Type of the optimizer's op, such as "AdamUpdate".
std::string_view update_type(Optimizer optimizer);

/// Types of the ops that clip gradients (training_step).
inline constexpr const char* kSquareSumType = "SquareSum";
inline constexpr const char* kAddSquaresType = "AddSquares";
inline constexpr const char* kClipScaleType = "ClipScale";

/// Cost of the update of one parameter, and the state that the optimizer keeps for it between steps.
struct UpdateCost {
  Flops flops;
  Bytes bytes, state;

  friend bool operator==(const UpdateCost&, const UpdateCost&) = default;
};
/// Cost of updating a parameter of `count` elements of `element` bytes each. With `loss_scaling`, a gradient of less
/// than 4 bytes per element is read and written once more.
UpdateCost update_cost(Optimizer optimizer, std::int64_t count, std::int64_t element, bool loss_scaling = false);

}  // namespace trainyard
