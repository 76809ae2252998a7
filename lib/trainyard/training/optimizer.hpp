#pragma once

#include <cstdint>
#include <string_view>

#include "trainyard/core/quantity.hpp"

namespace trainyard {

/// Rules that turn gradients into new weights. P: elements of a parameter.
///
///     sgd        2 P FLOPs: reads gradient and weight, writes the weight
///     momentum   4 P FLOPs: besides reads and writes 4 P bytes of state
///     adam      12 P FLOPs: besides reads and writes 8 P bytes of state
///
/// State is fp32. Parameters of 2 bytes have an fp32 copy in the state (mixed precision: 16 bytes a parameter with
/// Adam, gradient included).
enum class Optimizer : std::uint8_t {
  none,  // no training: the forward graph alone, without loss
  sgd,
  momentum,
  adam,
};

/// The optimizer of that name. Throws InputError ("unknown-optimizer").
Optimizer find_optimizer(std::string_view name);
std::string_view name_of(Optimizer optimizer);
/// The type of its op: "AdamUpdate".
std::string_view update_type(Optimizer optimizer);

/// Cost of the update of one parameter, and the state that the optimizer keeps for it between steps.
struct UpdateCost {
  Flops flops;
  Bytes bytes, state;

  friend bool operator==(const UpdateCost&, const UpdateCost&) = default;
};
/// The cost of updating a parameter of `count` elements of `element` bytes each. With `loss_scaling` a short gradient
/// is read and written once more.
UpdateCost update_cost(Optimizer optimizer, std::int64_t count, std::int64_t element, bool loss_scaling = false);

}  // namespace trainyard
