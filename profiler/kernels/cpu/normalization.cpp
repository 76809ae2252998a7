#include "profiler/kernels/normalization.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cpu {
namespace {

struct Statistics {
  float mean, inverse;  // inverse: 1 / standard deviation
};
Statistics statistics(const Sets& s, std::size_t set, const float* x, float eps, bool centre,
                      float* variance = nullptr) {
  double sum = 0, squares = 0;
  if (centre) s.each(set, [&](std::size_t i) { sum += x[i]; });
  const auto mean = static_cast<float>(sum / static_cast<double>(s.count()));
  s.each(set, [&](std::size_t i) { squares += static_cast<double>(x[i] - mean) * (x[i] - mean); });
  const auto spread = static_cast<float>(squares / static_cast<double>(s.count()));
  if (variance) *variance = spread;
  return {mean, 1 / std::sqrt(spread + eps)};
}

void scale_set(const OpArrays& c, const Sets& s, std::size_t set, Statistics how) {
  const Array scale = c.input(1), shift = c.input(2);
  const float* x = c.in[0].data;
  float* y = c.out[0].data;
  s.each(set, [&](std::size_t i) {
    const std::size_t channel = s.channel(i);
    float value = (x[i] - how.mean) * how.inverse;
    if (scale) value *= scale.data[channel];
    if (shift) value += shift.data[channel];
    y[i] = value;
  });
}

void normalize(OpArrays& c) {
  const Sets s{c};
  float* kept = keeps_statistics(c.node) ? c.kept() : nullptr;
  for (std::size_t set = 0; set < s.sets; ++set) {
    const Statistics how = statistics(s, set, c.in[0].data, epsilon(c.node), centred(c.node));
    if (kept) kept[set] = how.mean, kept[s.sets + set] = how.inverse;
    scale_set(c, s, set, how);
  }
}

void batch_norm(OpArrays& c) {
  const Sets s{c};
  float* kept = c.kept();
  const bool trains = uses_batch_statistics(c.model, c.node);
  const auto momentum = static_cast<float>(c.node.real("momentum", 0.9));
  for (std::size_t set = 0; set < s.sets; ++set) {
    Statistics how{};
    if (trains) {
      float variance = 0;
      how = statistics(s, set, c.in[0].data, epsilon(c.node), true, &variance);
      if (kept) kept[set] = how.mean, kept[s.sets + set] = how.inverse;
      if (c.input(3)) c.in[3].data[set] = momentum * c.in[3].data[set] + (1 - momentum) * how.mean;
      if (c.input(4)) c.in[4].data[set] = momentum * c.in[4].data[set] + (1 - momentum) * variance;
    } else {
      how = {c.in[3].data[set], 1 / std::sqrt(c.in[4].data[set] + epsilon(c.node))};
    }
    scale_set(c, s, set, how);
  }
}

/// With xh = (x - mean) inverse and g = dy scale:  dx = inverse (g - mean(g) - xh mean(g xh)); d scale = sum dy xh; d
/// shift = sum dy. Statistics that are not the batch's are constants: dx = inverse g.
void normalize_backward(OpArrays& c) {
  const Sets s{c};
  const bool fixed = fixed_statistics(c.model, c.node);
  const bool stored = c.kept() && keeps_statistics(c.node);
  const Array x = c.input(0), scale = c.input(1);
  const float* dy = c.dy[0].data;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
    if (c.wants(i)) std::fill(c.dx[i].data, c.dx[i].data + c.dx[i].size(), 0.0F);
  for (std::size_t set = 0; set < s.sets; ++set) {
    Statistics how{};
    if (fixed)
      how = {c.in[3].data[set], 1 / std::sqrt(c.in[4].data[set] + epsilon(c.node))};
    else if (stored)
      how = {c.kept()[set], c.kept()[s.sets + set]};
    else
      how = statistics(s, set, x.data, epsilon(c.node), centred(c.node));
    double sum = 0, product = 0;
    s.each(set, [&](std::size_t i) {
      const std::size_t channel = s.channel(i);
      const float g = dy[i] * (scale ? scale.data[channel] : 1.0F);
      const float xh = x ? (x.data[i] - how.mean) * how.inverse : 0.0F;
      sum += g;
      product += static_cast<double>(g) * xh;
      if (c.wants(1)) c.dx[1].data[channel] += dy[i] * xh;
      if (c.wants(2)) c.dx[2].data[channel] += dy[i];
    });
    if (!c.wants(0)) continue;
    const auto n = static_cast<double>(s.count());
    const auto mean_g = fixed || !centred(c.node) ? 0.0F : static_cast<float>(sum / n);
    const auto mean_product = fixed ? 0.0F : static_cast<float>(product / n);
    s.each(set, [&](std::size_t i) {
      const float g = dy[i] * (scale ? scale.data[s.channel(i)] : 1.0F);
      const float xh = fixed ? 0.0F : (x.data[i] - how.mean) * how.inverse;
      c.dx[0].data[i] = how.inverse * (g - mean_g - xh * mean_product);
    });
  }
}

/// Local response normalization: y = x / (bias + alpha / size x sum of squares over neighbouring channels)^beta.
struct Lrn {
  std::int64_t size, channels, plane, batch;
  float alpha, beta, bias;

  explicit Lrn(const OpArrays& c) {
    const Shape& x = c.value(c.node.inputs[0]).shape;
    size = c.node.integer("size", 5), channels = x[1], batch = x[0], plane = elements(x) / (batch * channels);
    alpha = static_cast<float>(c.node.real("alpha", 1e-4)) / static_cast<float>(size);
    beta = static_cast<float>(c.node.real("beta", 0.75)), bias = static_cast<float>(c.node.real("bias", 1));
  }
  float base(const float* x, std::int64_t channel) const {  // x: the element of the first channel
    float sum = 0;
    const std::int64_t first = std::max<std::int64_t>(0, channel - (size - 1) / 2);
    const std::int64_t last = std::min(channels - 1, channel + size / 2);
    for (std::int64_t k = first; k <= last; ++k) sum += x[k * plane] * x[k * plane];
    return bias + alpha * sum;
  }
};

void lrn(OpArrays& c) {
  const Lrn l{c};
  for (std::int64_t n = 0; n < l.batch; ++n)
    for (std::int64_t i = 0; i < l.plane; ++i) {
      const std::int64_t first = n * l.channels * l.plane + i;
      for (std::int64_t k = 0; k < l.channels; ++k)
        c.out[0].data[first + k * l.plane] =
            c.in[0].data[first + k * l.plane] * std::pow(l.base(c.in[0].data + first, k), -l.beta);
    }
}

void lrn_backward(OpArrays& c) {
  const Lrn l{c};
  for (std::int64_t n = 0; n < l.batch; ++n)
    for (std::int64_t i = 0; i < l.plane; ++i) {
      const std::int64_t first = n * l.channels * l.plane + i;
      const float* x = c.in[0].data + first;
      const float* dy = c.dy[0].data + first;
      for (std::int64_t k = 0; k < l.channels; ++k) {
        float sum = dy[k * l.plane] * std::pow(l.base(x, k), -l.beta);
        for (std::int64_t j = std::max<std::int64_t>(0, k - l.size / 2);
             j <= std::min(l.channels - 1, k + (l.size - 1) / 2); ++j)
          sum -= dy[j * l.plane] * x[j * l.plane] * 2 * l.alpha * l.beta * x[k * l.plane] *
                 std::pow(l.base(x, j), -l.beta - 1);
        c.dx[0].data[first + k * l.plane] = sum;
      }
    }
}

constexpr OpKernels kNormalizations[] = {
    {"BatchNormalization", batch_norm, normalize_backward},
    {"LayerNormalization", normalize, normalize_backward},
    {"InstanceNormalization", normalize, normalize_backward},
    {"GroupNormalization", normalize, normalize_backward},
    {"RMSNormalization", normalize, normalize_backward},
    {"SimplifiedLayerNormalization", normalize, normalize_backward},
    {"LRN", lrn, lrn_backward},
};

}  // namespace

std::span<const OpKernels> normalization_kernels() { return kNormalizations; }

}  // namespace trainyard::cpu
