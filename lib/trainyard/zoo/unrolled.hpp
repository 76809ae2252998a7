#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "trainyard/core/error.hpp"

namespace trainyard::zoo {

/// Upper limit on the cells of an unrolled recurrent network. A cell is about 13 nodes, or 30 ops of a training step.
inline constexpr std::int64_t kMostUnrolledCells = 8'192;

inline void require_unrollable(std::int64_t layers, std::int64_t steps) {
  if (layers <= kMostUnrolledCells / steps) return;
  refuse("too-large",
         fmt::format("{} layers of {} steps unroll to more than {} cells", layers, steps, kMostUnrolledCells),
         "give fewer layers or steps");
}

}  // namespace trainyard::zoo
