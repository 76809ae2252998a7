#include <algorithm>
#include <cmath>
#include <vector>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/cpu/matrix.hpp"
#include "profiler/kernels/products.hpp"

namespace trainyard::cpu {
namespace {

void lstm(OpArrays& c) {
  const Lstm l{c};
  const std::int64_t h = l.hidden, cell = l.cell();
  float* all = c.kept();
  if (!all) all = Scratch::floats(static_cast<std::size_t>(l.directions * l.steps * 7 * cell));
  float* sums = Scratch::floats(static_cast<std::size_t>(l.batch * 4 * h));
  std::vector<float> zeros(static_cast<std::size_t>(cell), 0.0F);
  for (std::int64_t d = 0; d < l.directions; ++d) {
    const MatrixMap w = matrix(c.in[1].data + d * 4 * h * l.inputs, 4 * h, l.inputs);
    const MatrixMap r = matrix(c.in[2].data + d * 4 * h * h, 4 * h, h);
    float* h0 = c.input(5) ? c.in[5].data + d * cell : zeros.data();
    float* c0 = c.input(6) ? c.in[6].data + d * cell : zeros.data();
    for (std::int64_t s = 0; s < l.steps; ++s) {
      const std::int64_t t = l.time(d, s);
      float* before_h = s == 0 ? h0 : l.kept(all, d, s - 1, 6);
      const float* before_c = s == 0 ? c0 : l.kept(all, d, s - 1, 4);
      MatrixMap gates = matrix(sums, l.batch, 4 * h);
      multiply(matrix(c.in[0].data + t * l.batch * l.inputs, l.batch, l.inputs), false, w, true, gates, false);
      multiply(matrix(before_h, l.batch, h), false, r, true, gates, true);
      for (std::int64_t b = 0; b < l.batch; ++b)
        for (std::int64_t u = 0; u < h; ++u) {
          float in[4];
          for (std::int64_t g = 0; g < 4; ++g) {
            in[g] = sums[b * 4 * h + g * h + u];
            if (c.input(3)) in[g] += c.in[3].data[d * 8 * h + g * h + u] + c.in[3].data[d * 8 * h + 4 * h + g * h + u];
          }
          const std::int64_t at = b * h + u;
          const float i = sigmoid(in[0]), o = sigmoid(in[1]), f = sigmoid(in[2]), g = std::tanh(in[3]);
          const float state = f * before_c[at] + i * g, squashed = std::tanh(state);
          const float slots[7] = {i, o, f, g, state, squashed, o * squashed};
          for (std::int64_t k = 0; k < 7; ++k) l.kept(all, d, s, k)[at] = slots[k];
          if (c.out[0]) c.out[0].data[(t * l.directions + d) * cell + at] = slots[6];
        }
    }
    const std::int64_t last = l.steps - 1;
    if (c.out.size() > 1 && c.out[1]) std::copy_n(l.kept(all, d, last, 6), cell, c.out[1].data + d * cell);
    if (c.out.size() > 2 && c.out[2]) std::copy_n(l.kept(all, d, last, 4), cell, c.out[2].data + d * cell);
  }
}

void lstm_backward(OpArrays& c) {
  const Lstm l{c};
  const std::int64_t h = l.hidden, cell = l.cell();
  const auto count = static_cast<std::size_t>(cell);
  float* all = c.kept();
  for (Array& dx : c.dx)
    if (dx) std::fill(dx.data, dx.data + dx.size(), 0.0F);
  float* sums = Scratch::floats(static_cast<std::size_t>(l.batch * 4 * h));
  std::vector<float> dh(count), dc(count), zeros(count, 0.0F);
  const auto gradient = [&](std::size_t i) { return i < c.dy.size() ? c.dy[i] : Array{}; };
  for (std::int64_t d = 0; d < l.directions; ++d) {
    const MatrixMap w = matrix(c.in[1].data + d * 4 * h * l.inputs, 4 * h, l.inputs);
    const MatrixMap r = matrix(c.in[2].data + d * 4 * h * h, 4 * h, h);
    float* h0 = c.input(5) ? c.in[5].data + d * cell : zeros.data();
    const float* c0 = c.input(6) ? c.in[6].data + d * cell : zeros.data();
    std::fill(dh.begin(), dh.end(), 0.0F);
    std::fill(dc.begin(), dc.end(), 0.0F);
    if (gradient(1)) std::copy_n(gradient(1).data + d * cell, cell, dh.data());
    if (gradient(2)) std::copy_n(gradient(2).data + d * cell, cell, dc.data());
    for (std::int64_t s = l.steps; s-- > 0;) {
      const std::int64_t t = l.time(d, s);
      float* before_h = s == 0 ? h0 : l.kept(all, d, s - 1, 6);
      const float* before_c = s == 0 ? c0 : l.kept(all, d, s - 1, 4);
      for (std::int64_t b = 0; b < l.batch; ++b)
        for (std::int64_t u = 0; u < h; ++u) {
          const std::int64_t at = b * h + u;
          const auto slot = static_cast<std::size_t>(at);
          const auto kept = [&](std::int64_t k) { return l.kept(all, d, s, k)[at]; };
          const float i = kept(0), o = kept(1), f = kept(2), g = kept(3), squashed = kept(5);
          const float out = dh[slot] + (gradient(0) ? gradient(0).data[(t * l.directions + d) * cell + at] : 0.0F);
          const float state = dc[slot] + out * o * (1 - squashed * squashed);
          float* row = sums + b * 4 * h + u;
          row[0] = state * g * i * (1 - i);
          row[h] = out * squashed * o * (1 - o);
          row[2 * h] = state * before_c[at] * f * (1 - f);
          row[3 * h] = state * i * (1 - g * g);
          dc[slot] = state * f;
        }
      const MatrixMap gates = matrix(sums, l.batch, 4 * h);
      if (c.wants(0))
        multiply(gates, false, w, false, matrix(c.dx[0].data + t * l.batch * l.inputs, l.batch, l.inputs), true);
      if (c.wants(1))
        multiply(gates, true, matrix(c.in[0].data + t * l.batch * l.inputs, l.batch, l.inputs), false,
                 matrix(c.dx[1].data + d * 4 * h * l.inputs, 4 * h, l.inputs), true);
      if (c.wants(2))
        multiply(gates, true, matrix(before_h, l.batch, h), false, matrix(c.dx[2].data + d * 4 * h * h, 4 * h, h),
                 true);
      if (c.wants(3))
        for (std::int64_t b = 0; b < l.batch; ++b)
          for (std::int64_t k = 0; k < 4 * h; ++k) {
            c.dx[3].data[d * 8 * h + k] += sums[b * 4 * h + k];
            c.dx[3].data[d * 8 * h + 4 * h + k] += sums[b * 4 * h + k];
          }
      multiply(gates, false, r, false, matrix(dh.data(), l.batch, h), false);
    }
    if (c.wants(5)) std::copy_n(dh.data(), cell, c.dx[5].data + d * cell);
    if (c.wants(6)) std::copy_n(dc.data(), cell, c.dx[6].data + d * cell);
  }
}

constexpr OpKernels kRecurrent[] = {{"LSTM", lstm, lstm_backward}};

}  // namespace

std::span<const OpKernels> recurrent_kernels() { return kRecurrent; }

}  // namespace trainyard::cpu
