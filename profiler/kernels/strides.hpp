#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainyard/model/model.hpp"

namespace trainyard::kernels {

/// Strides of an array in row-major order.
inline std::vector<std::int64_t> dense_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Strides along each dimension of `out` in an array of shape `own` that is broadcast to it; 0 for repeated dimensions.
inline std::vector<std::int64_t> broadcast_strides(const Shape& own, const Shape& out) {
  std::vector<std::int64_t> strides(out.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = own.size(); i-- > 0;) {
    const std::size_t at = i + out.size() - own.size();
    strides[at] = own[i] == 1 ? 0 : step;
    step *= own[i];
  }
  return strides;
}

/// Calls f(offsets) for each element of an array of shape `out`, in order. offsets[i] is the offset of the i-th
/// operand's element, by its strides.
template <std::size_t N, class F>
void walk(const Shape& out, const std::array<std::vector<std::int64_t>, N>& strides, F&& f) {
  std::array<std::int64_t, N> at{};
  const std::int64_t count = elements(out);
  if (count == 0) return;
  const std::size_t rank = out.size();
  if (rank == 0) return f(at);
  const std::int64_t inner = out[rank - 1];
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t done = 0; done < count; done += inner) {
    std::array<std::int64_t, N> here = at;
    for (std::int64_t i = 0; i < inner; ++i) {
      f(here);
      for (std::size_t k = 0; k < N; ++k) here[k] += strides[k][rank - 1];
    }
    for (std::size_t d = rank - 1; d-- > 0;) {
      for (std::size_t k = 0; k < N; ++k) at[k] += strides[k][d];
      if (++index[d] < out[d]) break;
      for (std::size_t k = 0; k < N; ++k) at[k] -= strides[k][d] * out[d];
      index[d] = 0;
    }
  }
}

}  // namespace trainyard::kernels
