#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "profiler/kernels/cpu/broadcast.hpp"
#include "profiler/kernels/cpu/kernel_tables.hpp"

namespace trainyard::cpu {
namespace {

/// x / (sum |x|^p)^(1/p) along an axis, for p = 1 or 2.
void lp_normalize(OpArrays& c) {
  const bool one = c.node.integer("p", 2) == 1;
  const Lines lines = lines_along_axis(c, -1);
  lines.each([&](std::size_t, std::size_t first) {
    float sum = 0;
    for (std::size_t i = 0; i < lines.length; ++i) {
      const float x = c.in[0].data[first + i * lines.step];
      sum += one ? std::fabs(x) : x * x;
    }
    const float norm = one ? sum : std::sqrt(sum);
    for (std::size_t i = 0; i < lines.length; ++i)
      c.out[0].data[first + i * lines.step] = norm == 0 ? 0 : c.in[0].data[first + i * lines.step] / norm;
  });
}

/// dx = (dy - d(norm)/dx (dy . y)) / norm.
void lp_normalize_backward(OpArrays& c) {
  const bool one = c.node.integer("p", 2) == 1;
  const Lines lines = lines_along_axis(c, -1);
  lines.each([&](std::size_t, std::size_t first) {
    float sum = 0, dot = 0;
    for (std::size_t i = 0; i < lines.length; ++i) {
      const float x = c.in[0].data[first + i * lines.step];
      sum += one ? std::fabs(x) : x * x;
      dot += x * c.dy[0].data[first + i * lines.step];
    }
    const float norm = one ? sum : std::sqrt(sum);
    for (std::size_t i = 0; i < lines.length; ++i) {
      const float x = c.in[0].data[first + i * lines.step];
      const float slope = one ? (x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F) : x / norm;
      c.dx[0].data[first + i * lines.step] =
          norm == 0 ? 0 : (c.dy[0].data[first + i * lines.step] - slope * dot / norm) / norm;
    }
  });
}

/// Moments for (x - mean) / sqrt(variance + 1e-9), over the axes 0, 2, 3 unless others are given.
struct Moments {
  Shape in, out;
  std::vector<float> mean, deviation;

  explicit Moments(const OpArrays& c) : in(c.value(c.node.inputs[0]).shape), out(in) {
    for (const std::int64_t axis : c.node.integers("axes", {0, 2, 3})) out[axis_at(axis, in.size())] = 1;
    const auto count = static_cast<std::size_t>(elements(out));
    mean.assign(count, 0), deviation.assign(count, 0);
    each([&](std::size_t i, std::size_t o) { mean[o] += c.in[0].data[i] / each_count(); });
    each([&](std::size_t i, std::size_t o) {
      deviation[o] += (c.in[0].data[i] - mean[o]) * (c.in[0].data[i] - mean[o]) / each_count();
    });
    for (float& d : deviation) d = std::sqrt(d + 1e-9F);
  }
  float each_count() const { return static_cast<float>(elements(in)) / static_cast<float>(elements(out)); }
  template <class F>
  void each(const F& f) const {
    each_broadcast(in, out, f);
  }
};

void mean_variance(OpArrays& c) {
  const Moments m{c};
  m.each([&](std::size_t i, std::size_t o) { c.out[0].data[i] = (c.in[0].data[i] - m.mean[o]) / m.deviation[o]; });
}

void mean_variance_backward(OpArrays& c) {
  const Moments m{c};
  struct Sums {
    float plain = 0, normal = 0;
  };
  std::vector<Sums> sums(m.mean.size());
  const auto normal = [&](std::size_t i, std::size_t o) { return (c.in[0].data[i] - m.mean[o]) / m.deviation[o]; };
  m.each([&](std::size_t i, std::size_t o) {
    sums[o].plain += c.dy[0].data[i] / m.each_count();
    sums[o].normal += c.dy[0].data[i] * normal(i, o) / m.each_count();
  });
  m.each([&](std::size_t i, std::size_t o) {
    c.dx[0].data[i] = (c.dy[0].data[i] - sums[o].plain - normal(i, o) * sums[o].normal) / m.deviation[o];
  });
}

/// GlobalLpPool, (sum |x|^p)^(1/p) over each plane: calls f(plane, its first element, its size).
template <class F>
void each_plane(const OpArrays& c, F&& f) {
  const Shape& x = c.value(c.node.inputs[0]).shape;
  const std::int64_t planes = x[0] * x[1], size = elements(x) / std::max<std::int64_t>(1, planes);
  for (std::int64_t o = 0; o < planes; ++o) f(o, o * size, size);
}
void global_lp(OpArrays& c) {
  const auto p = static_cast<float>(c.node.integer("p", 2));
  each_plane(c, [&](std::int64_t o, std::int64_t first, std::int64_t size) {
    float sum = 0;
    for (std::int64_t i = 0; i < size; ++i) sum += std::pow(std::fabs(c.in[0].data[first + i]), p);
    c.out[0].data[o] = std::pow(sum, 1 / p);
  });
}
void global_lp_backward(OpArrays& c) {
  const auto p = static_cast<float>(c.node.integer("p", 2));
  each_plane(c, [&](std::int64_t o, std::int64_t first, std::int64_t size) {
    float sum = 0;
    for (std::int64_t i = 0; i < size; ++i) sum += std::pow(std::fabs(c.in[0].data[first + i]), p);
    const float scale = sum == 0 ? 0 : c.dy[0].data[o] * std::pow(sum, 1 / p - 1);
    for (std::int64_t i = 0; i < size; ++i) {
      const float x = c.in[0].data[first + i];
      c.dx[0].data[first + i] = scale * std::pow(std::fabs(x), p - 1) * (x < 0 ? -1.0F : 1.0F);
    }
  });
}

/// ReverseSequence: calls f(first element of the result, first element of the input, number of elements) for each run.
/// The first sequence_lens elements of each batch row are reversed along the time axis.
template <class F>
void each_reversed(const OpArrays& c, const float* lengths, const Shape& shape, F&& f) {
  const auto time = static_cast<std::size_t>(c.node.integer("time_axis", 0)), batch = 1 - time;
  const std::int64_t inner = elements(shape) / std::max<std::int64_t>(1, shape[0] * shape[1]);
  for (std::int64_t a = 0; a < shape[0]; ++a)
    for (std::int64_t b = 0; b < shape[1]; ++b) {
      const std::int64_t t = time == 0 ? a : b, row = batch == 0 ? a : b;
      const auto length = static_cast<std::int64_t>(lengths[row]);
      const std::int64_t other = t < length ? length - 1 - t : t;
      const std::int64_t from = time == 0 ? other * shape[1] + b : a * shape[1] + other;
      f((a * shape[1] + b) * inner, from * inner, inner);
    }
}
void reverse_sequence(OpArrays& c) {
  each_reversed(c, c.in[1].data, *c.in[0].shape, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
    std::copy_n(c.in[0].data + from, count, c.out[0].data + to);
  });
}
void reverse_sequence_backward(OpArrays& c) {
  each_reversed(c, c.in[1].data, *c.dy[0].shape, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
    std::copy_n(c.dy[0].data + to, count, c.dx[0].data + from);
  });
}

// Integers of up to 24 bits are exact as floats.

enum class Bits { conjunction, disjunction, exclusive, shift };

template <Bits Kind>
void bitwise(OpArrays& c) {
  const bool left = c.node.text("direction", "LEFT") == "LEFT";
  std::size_t i = 0;
  walk<2>(*c.out[0].shape,
          {broadcast_strides(*c.in[0].shape, *c.out[0].shape), broadcast_strides(*c.in[1].shape, *c.out[0].shape)},
          [&](const std::array<std::int64_t, 2>& at) {
            const auto a = static_cast<std::int64_t>(c.in[0].data[at[0]]),
                       b = static_cast<std::int64_t>(c.in[1].data[at[1]]);
            const std::int64_t y = Kind == Bits::conjunction   ? a & b
                                   : Kind == Bits::disjunction ? a | b
                                   : Kind == Bits::exclusive   ? a ^ b
                                   : left                      ? a * (std::int64_t{1} << (b & 31))
                                                               : a / (std::int64_t{1} << (b & 31));
            c.out[0].data[i++] = static_cast<float>(y);
          });
}
void bitwise_not(OpArrays& c) {
  for (std::size_t i = 0; i < c.out[0].size(); ++i)
    c.out[0].data[i] = static_cast<float>(~static_cast<std::int64_t>(c.in[0].data[i]));
}

/// Scale and zero point: one for the whole array, or one per index along the axis.
struct Quantization {
  const float *scale, *zero;
  std::int64_t count, inner;

  explicit Quantization(const OpArrays& c) : scale(c.in[1].data), zero(c.input(2) ? c.in[2].data : nullptr) {
    const Shape& x = c.value(c.node.inputs[0]).shape;
    count = static_cast<std::int64_t>(c.in[1].size());
    inner = 1;
    if (count > 1)
      for (std::size_t i = axis_at(c.node.integer("axis", 1), x.size()) + 1; i < x.size(); ++i) inner *= x[i];
  }
  std::int64_t at(std::size_t i) const { return static_cast<std::int64_t>(i) / inner % count; }
  float zero_at(std::size_t i) const { return zero ? zero[at(i)] : 0.0F; }
};

void quantize(OpArrays& c) {
  const Quantization q{c};
  const bool is_signed = c.value(c.node.outputs[0]).type == DataType::int8;
  for (std::size_t i = 0; i < c.out[0].size(); ++i) {
    const float y = std::nearbyint(c.in[0].data[i] / q.scale[q.at(i)]) + q.zero_at(i);
    c.out[0].data[i] = std::clamp(y, is_signed ? -128.0F : 0.0F, is_signed ? 127.0F : 255.0F);
  }
}
void dequantize(OpArrays& c) {
  const Quantization q{c};
  for (std::size_t i = 0; i < c.out[0].size(); ++i)
    c.out[0].data[i] = (c.in[0].data[i] - q.zero_at(i)) * q.scale[q.at(i)];
}

constexpr OpKernels kNorms[] = {
    {"LpNormalization", lp_normalize, lp_normalize_backward},
    {"MeanVarianceNormalization", mean_variance, mean_variance_backward},
    {"GlobalLpPool", global_lp, global_lp_backward},
    {"ReverseSequence", reverse_sequence, reverse_sequence_backward},
    {"BitwiseAnd", bitwise<Bits::conjunction>, nullptr},
    {"BitwiseOr", bitwise<Bits::disjunction>, nullptr},
    {"BitwiseXor", bitwise<Bits::exclusive>, nullptr},
    {"BitShift", bitwise<Bits::shift>, nullptr},
    {"BitwiseNot", bitwise_not, nullptr},
    {"QuantizeLinear", quantize, nullptr},
    {"DequantizeLinear", dequantize, nullptr},
};

}  // namespace

std::span<const OpKernels> norm_kernels() { return kNorms; }

}  // namespace trainyard::cpu
