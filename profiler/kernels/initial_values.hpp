#pragma once

#include <cstdint>

#include "trainyard/model/model.hpp"

namespace trainyard::kernels {

/// Rule for the initial numbers of a value. Random numbers are drawn element by element, from the stream with the
/// value's number (Random::stream(seed, id)).
///
/// - integers, reals: the known contents
/// - filled: all are `number`
/// - uniform: in [-number, number), for parameters: sqrt(3 / fan-in), or 0.1 for those of one dimension
/// - normal: standard normal, for inputs that are not indices
/// - below: integers in [0, below), for indices and labels; `below` is the extent of what they index
struct InitialValues {
  enum class Rule : std::uint8_t { integers, reals, filled, uniform, normal, below } rule = Rule::filled;
  double number = 0;
  std::int64_t below = 0;
};

/// Initial numbers by value, of inputs, parameters, buffers and constants of known shape, chosen by the nodes that use
/// each.
IdMap<ValueId, InitialValues> initial_values(const Model& model);

}  // namespace trainyard::kernels
