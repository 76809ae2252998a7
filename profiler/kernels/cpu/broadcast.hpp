#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "profiler/kernels/cpu/arrays.hpp"
#include "profiler/kernels/strides.hpp"

namespace trainyard::cpu {

/// Adds up what `to` was broadcast to: `from` has the larger shape. `to` is overwritten.
inline void sum_to_shape(const float* from, const Shape& large, const Array& to) {
  if (*to.shape == large) {
    std::copy(from, from + to.size(), to.data);
    return;
  }
  std::fill(to.data, to.data + to.size(), 0.0F);
  std::size_t i = 0;
  walk<1>(large, {broadcast_strides(*to.shape, large)},
          [&](const std::array<std::int64_t, 1>& at) { to.data[at[0]] += from[i++]; });
}

}  // namespace trainyard::cpu
