#include <algorithm>
#include <vector>

#include "profiler/kernels/cpu/kernel_tables.hpp"

namespace trainyard::cpu {
namespace {

/// Calls f(index of the choice, first element of its token, first element of its row among the experts, features) for
/// each choice [B, S, k] that got a slot; `wide` is an array of tokens [B, S, h].
template <class F>
void each_choice(const Array& slots, const Array& wide, F&& f) {
  const std::int64_t k = slots.dim(2), h = wide.dim(2), n = slots.dim(0) * slots.dim(1) * k;
  for (std::int64_t i = 0; i < n; ++i)
    if (const auto row = static_cast<std::int64_t>(slots.data[i]); row >= 0) f(i, i / k * h, row * h, h);
}

void clear(const Array& to) { std::fill_n(to.data, to.size(), 0.0F); }

void expert_slots(OpArrays& c) {
  const Array &chosen = c.in[0], &slots = c.out[0];
  const std::int64_t samples = chosen.dim(0), tokens = chosen.dim(1), k = chosen.dim(2);
  const std::int64_t experts = c.node.integer("experts", 1), capacity = c.node.integer("capacity", 1);
  for (std::int64_t b = 0; b < samples; ++b) {
    std::vector<std::int64_t> taken(static_cast<std::size_t>(experts), 0);
    for (std::int64_t j = 0; j < k; ++j)
      for (std::int64_t s = 0; s < tokens; ++s) {
        const std::int64_t at = (b * tokens + s) * k + j;
        const auto expert = std::clamp<std::int64_t>(static_cast<std::int64_t>(chosen.data[at]), 0, experts - 1);
        const std::int64_t place = taken[static_cast<std::size_t>(expert)]++;
        slots.data[at] = place < capacity ? static_cast<float>((expert * samples + b) * capacity + place) : -1.0F;
      }
  }
}

void expert_dispatch(OpArrays& c) {
  clear(c.out[0]);
  each_choice(c.in[1], c.in[0], [&](std::int64_t, std::int64_t token, std::int64_t row, std::int64_t h) {
    std::copy_n(c.in[0].data + token, h, c.out[0].data + row);
  });
}
void expert_dispatch_backward(OpArrays& c) {
  clear(c.dx[0]);
  each_choice(c.in[1], c.dx[0], [&](std::int64_t, std::int64_t token, std::int64_t row, std::int64_t h) {
    for (std::int64_t i = 0; i < h; ++i) c.dx[0].data[token + i] += c.dy[0].data[row + i];
  });
}

void expert_combine(OpArrays& c) {
  clear(c.out[0]);
  each_choice(c.in[2], c.out[0], [&](std::int64_t choice, std::int64_t token, std::int64_t row, std::int64_t h) {
    const float weight = c.in[1].data[choice];
    for (std::int64_t i = 0; i < h; ++i) c.out[0].data[token + i] += weight * c.in[0].data[row + i];
  });
}
void expert_combine_backward(OpArrays& c) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
    if (c.wants(i)) clear(c.dx[i]);
  each_choice(c.in[2], c.dy[0], [&](std::int64_t choice, std::int64_t token, std::int64_t row, std::int64_t h) {
    const float* dy = c.dy[0].data + token;
    if (c.wants(0))
      for (std::int64_t i = 0; i < h; ++i) c.dx[0].data[row + i] = c.in[1].data[choice] * dy[i];
    if (c.wants(1))
      for (std::int64_t i = 0; i < h; ++i) c.dx[1].data[choice] += c.in[0].data[row + i] * dy[i];
  });
}

constexpr OpKernels kExperts[] = {
    {"ExpertSlots", expert_slots, nullptr},
    {"ExpertDispatch", expert_dispatch, expert_dispatch_backward},
    {"ExpertCombine", expert_combine, expert_combine_backward},
};

}  // namespace

std::span<const OpKernels> expert_kernels() { return kExperts; }

}  // namespace trainyard::cpu
