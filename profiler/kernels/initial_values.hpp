#pragma once

#include <cstdint>

#include "trainyard/model/model.hpp"

namespace trainyard::kernels {

/// The rule by which a value gets its first numbers; random ones are drawn from the stream that has the value's number
/// (Random::stream(seed, id)), element by element.
///
/// - integers, reals: its known contents
/// - filled: all are `number`
/// - uniform: in [-number, number): parameters, sqrt(3 / inputs of a unit), or 0.1 for those of one dimension
/// - normal: standard normal: inputs that are no indices
/// - below: whole, in [0, below): indices and labels, by what they choose from
struct InitialValues {
  enum class Rule : std::uint8_t { integers, reals, filled, uniform, normal, below } rule = Rule::filled;
  double number = 0;
  std::int64_t below = 0;
};

/// By value: first numbers of inputs, parameters, buffers and constants of known shape, by the nodes that use each.
IdMap<ValueId, InitialValues> initial_values(const Model& model);

}  // namespace trainyard::kernels
