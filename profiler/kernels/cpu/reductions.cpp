#include <algorithm>
#include <cmath>
#include <limits>

#include "profiler/kernels/cpu/broadcast.hpp"
#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "trainyard/model/op_kind.hpp"

namespace trainyard::cpu {
namespace {

struct Reduction {
  Shape in, out;

  explicit Reduction(const OpArrays& c) : in(c.value(c.node.inputs[0]).shape), out(reduced_shape(c)) {}
  /// Calls f(input index, result index) for each element of the input.
  template <class F>
  void each(const F& f) const {
    each_broadcast(in, out, f);
  }
  float count() const {
    return static_cast<float>(elements(in)) / static_cast<float>(std::max<std::int64_t>(1, elements(out)));
  }
};

enum class How { sum, mean, max, min, product, squares, log_sum, log_sum_exp, l1, l2 };

/// The largest element that each result reads: exp(x - shift) does not overflow. 0 if it is infinite.
std::vector<float> shifts(const Reduction& r, const float* x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> shift(static_cast<std::size_t>(elements(r.out)), -kInfinity);
  r.each([&](std::size_t i, std::size_t o) { shift[o] = std::max(shift[o], x[i]); });
  for (float& each : shift)
    if (std::isinf(each)) each = 0;
  return shift;
}

template <How Kind>
void reduce(OpArrays& c) {
  const Reduction r{c};
  const float* x = c.in[0].data;
  float* y = c.out[0].data;
  const std::size_t n = c.out[0].size();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::fill(y, y + n,
            Kind == How::max       ? -kInfinity
            : Kind == How::min     ? kInfinity
            : Kind == How::product ? 1.0F
                                   : 0.0F);
  std::vector<float> shift;
  if constexpr (Kind == How::log_sum_exp) shift = shifts(r, x);
  r.each([&](std::size_t i, std::size_t o) {
    if constexpr (Kind == How::max)
      y[o] = std::max(y[o], x[i]);
    else if constexpr (Kind == How::min)
      y[o] = std::min(y[o], x[i]);
    else if constexpr (Kind == How::product)
      y[o] *= x[i];
    else if constexpr (Kind == How::squares || Kind == How::l2)
      y[o] += x[i] * x[i];
    else if constexpr (Kind == How::log_sum_exp)
      y[o] += std::exp(x[i] - shift[o]);
    else if constexpr (Kind == How::l1)
      y[o] += std::fabs(x[i]);
    else
      y[o] += x[i];
  });
  for (std::size_t o = 0; o < n; ++o) {
    if constexpr (Kind == How::mean) y[o] /= r.count();
    if constexpr (Kind == How::log_sum) y[o] = std::log(y[o]);
    if constexpr (Kind == How::log_sum_exp) y[o] = shift[o] + std::log(y[o]);
    if constexpr (Kind == How::l2) y[o] = std::sqrt(y[o]);
  }
}

template <How Kind>
void reduce_backward(OpArrays& c) {
  const Reduction r{c};
  const float* dy = c.dy[0].data;
  float* dx = c.dx[0].data;
  const float* x = c.input(0).data;
  const auto results = static_cast<std::size_t>(elements(r.out));
  if constexpr (Kind == How::sum || Kind == How::mean) {
    const float scale = Kind == How::mean ? 1 / r.count() : 1;
    r.each([&](std::size_t i, std::size_t o) { dx[i] = dy[o] * scale; });
  } else if constexpr (Kind == How::max || Kind == How::min) {  // to the first element that attains it
    const float* y = c.out[0].data;
    std::vector<bool> given(results, false);
    r.each([&](std::size_t i, std::size_t o) {
      const bool here = !given[o] && x[i] == y[o];
      dx[i] = here ? dy[o] : 0;
      if (here) given[o] = true;
    });
  } else {
    std::vector<float> sum(results), shift;
    if constexpr (Kind == How::log_sum_exp) shift = shifts(r, x);
    r.each([&](std::size_t i, std::size_t o) {
      if constexpr (Kind == How::log_sum_exp)
        sum[o] += std::exp(x[i] - shift[o]);
      else if constexpr (Kind == How::l2)
        sum[o] += x[i] * x[i];
      else
        sum[o] += x[i];
    });
    r.each([&](std::size_t i, std::size_t o) {
      if constexpr (Kind == How::squares)
        dx[i] = dy[o] * 2 * x[i];
      else if constexpr (Kind == How::log_sum_exp)
        dx[i] = dy[o] * std::exp(x[i] - shift[o]) / sum[o];
      else if constexpr (Kind == How::log_sum)
        dx[i] = dy[o] / sum[o];
      else if constexpr (Kind == How::l1)
        dx[i] = x[i] > 0 ? dy[o] : x[i] < 0 ? -dy[o] : 0;
      else
        dx[i] = sum[o] == 0 ? 0 : dy[o] * x[i] / std::sqrt(sum[o]);
    });
  }
}

/// dy times the product of the other elements.
void product_backward(OpArrays& c) {
  const Reduction r{c};
  const float *x = c.input(0).data, *dy = c.dy[0].data;
  float* dx = c.dx[0].data;
  std::vector<float> product(static_cast<std::size_t>(elements(r.out)), 1);  // of the elements that are not 0
  std::vector<std::size_t> zeros(product.size());
  r.each([&](std::size_t i, std::size_t o) {
    if (x[i] == 0)
      ++zeros[o];
    else
      product[o] *= x[i];
  });
  r.each([&](std::size_t i, std::size_t o) {
    if (x[i] == 0)
      dx[i] = zeros[o] == 1 ? dy[o] * product[o] : 0;
    else
      dx[i] = zeros[o] == 0 ? dy[o] * product[o] / x[i] : 0;
  });
}

template <bool Largest>
void arg(OpArrays& c) {
  const Lines lines = lines_along_axis(c, 0);
  lines.each([&](std::size_t number, std::size_t first) {
    const float* line = c.in[0].data + first;
    std::size_t best = 0;
    for (std::size_t i = 1; i < lines.length; ++i)
      if (Largest ? line[i * lines.step] > line[best * lines.step] : line[i * lines.step] < line[best * lines.step])
        best = i;
    c.out[0].data[number] = static_cast<float>(best);
  });
}

/// Cumulative sums along an axis, in either direction, inclusive or exclusive.
void sums(const OpArrays& c, const float* from, float* to, const Shape& shape, bool backwards) {
  const ValueId id = input_at(c.node, 1);
  const std::int64_t given = id.is_none() || c.value(id).integers.empty() ? 0 : c.value(id).integers[0];
  const Lines lines{shape, axis_at(given, shape.size())};
  const bool exclusive = c.node.integer("exclusive", 0) != 0;
  lines.each([&](std::size_t, std::size_t first) {
    float sum = 0;
    for (std::size_t k = 0; k < lines.length; ++k) {
      const std::size_t i = first + (backwards ? lines.length - 1 - k : k) * lines.step;
      const float x = from[i];
      to[i] = exclusive ? sum : sum + x;
      sum += x;
    }
  });
}
void cumulative(OpArrays& c) {
  sums(c, c.in[0].data, c.out[0].data, *c.out[0].shape, c.node.integer("reverse", 0) != 0);
}
void cumulative_backward(OpArrays& c) {
  sums(c, c.dy[0].data, c.dx[0].data, *c.dx[0].shape, c.node.integer("reverse", 0) == 0);
}

constexpr OpKernels kReductions[] = {
    {"ReduceSum", reduce<How::sum>, reduce_backward<How::sum>},
    {"ReduceMean", reduce<How::mean>, reduce_backward<How::mean>},
    {"ReduceMax", reduce<How::max>, reduce_backward<How::max>},
    {"ReduceMin", reduce<How::min>, reduce_backward<How::min>},
    {"ReduceProd", reduce<How::product>, product_backward},
    {"ReduceSumSquare", reduce<How::squares>, reduce_backward<How::squares>},
    {"ReduceLogSum", reduce<How::log_sum>, reduce_backward<How::log_sum>},
    {"ReduceLogSumExp", reduce<How::log_sum_exp>, reduce_backward<How::log_sum_exp>},
    {"ReduceL1", reduce<How::l1>, reduce_backward<How::l1>},
    {"ReduceL2", reduce<How::l2>, reduce_backward<How::l2>},
    {"ArgMax", arg<true>, nullptr},
    {"ArgMin", arg<false>, nullptr},
    {"CumSum", cumulative, cumulative_backward},
};

}  // namespace

std::span<const OpKernels> reduction_kernels() { return kReductions; }

}  // namespace trainyard::cpu
