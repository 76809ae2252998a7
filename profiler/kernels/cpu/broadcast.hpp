#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "profiler/kernels/cpu/arrays.hpp"
#include "profiler/kernels/strides.hpp"

namespace trainyard::cpu {

/// Calls f(index in `large`, index in `small` of the element broadcast to it) for each element of `large`.
template <class F>
void each_broadcast(const Shape& large, const Shape& small, const F& f) {
  std::size_t i = 0;
  walk<1>(large, {broadcast_strides(small, large)},
          [&](const std::array<std::int64_t, 1>& at) { f(i++, static_cast<std::size_t>(at[0])); });
}

/// Sums `from`, of shape `large`, over the dimensions to which `to` was broadcast. `to` is overwritten.
inline void sum_to_shape(const float* from, const Shape& large, const Array& to) {
  if (*to.shape == large) {
    std::copy(from, from + to.size(), to.data);
    return;
  }
  std::fill(to.data, to.data + to.size(), 0.0F);
  each_broadcast(large, *to.shape, [&](std::size_t i, std::size_t at) { to.data[at] += from[i]; });
}

}  // namespace trainyard::cpu
