#include <algorithm>
#include <array>
#include <cmath>

#include "profiler/kernels/cpu/broadcast.hpp"
#include "profiler/kernels/cpu/kernel_tables.hpp"

namespace trainyard::cpu {
namespace {

/// y = F{}(a, b).
template <class F>
void forward(OpArrays& c) {
  const Array &a = c.in[0], &b = c.in[1], &y = c.out[0];
  const std::size_t n = y.size();
  if (*a.shape == *b.shape) {
    for (std::size_t i = 0; i < n; ++i) y.data[i] = F{}(a.data[i], b.data[i]);
  } else if (b.size() == 1 && *a.shape == *y.shape) {
    const float right = b.data[0];
    for (std::size_t i = 0; i < n; ++i) y.data[i] = F{}(a.data[i], right);
  } else {
    std::size_t i = 0;
    walk<2>(*y.shape, {broadcast_strides(*a.shape, *y.shape), broadcast_strides(*b.shape, *y.shape)},
            [&](const std::array<std::int64_t, 2>& at) { y.data[i++] = F{}(a.data[at[0]], b.data[at[1]]); });
  }
}

/// dx from DA and DB, the derivatives by a and by b. An absent operand, which the rule does not read, counts as 0.
template <class DA, class DB>
void backward(OpArrays& c) {
  const Array& dy = c.dy[0];
  const Shape& shape = *dy.shape;
  const Array a = c.input(0), b = c.input(1);
  static constexpr float kNothing = 0;
  const std::vector<std::int64_t> none(shape.size(), 0);
  const auto strides = [&](const Array& x) { return x ? broadcast_strides(*x.shape, shape) : none; };
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (!c.wants(side)) continue;
    const Array& dx = c.dx[side];
    const float* left = a ? a.data : &kNothing;
    const float* right = b ? b.data : &kNothing;
    const auto derivative = [&](float x, float y) { return side == 0 ? DA{}(x, y) : DB{}(x, y); };
    const bool plain_a = !a || *a.shape == shape, plain_b = !b || *b.shape == shape;
    if (plain_a && plain_b && *dx.shape == shape) {
      for (std::size_t i = 0, n = dx.size(); i < n; ++i)
        dx.data[i] = dy.data[i] * derivative(a ? left[i] : 0, b ? right[i] : 0);
      continue;
    }
    std::fill(dx.data, dx.data + dx.size(), 0.0F);
    std::size_t i = 0;
    walk<3>(shape, {strides(a), strides(b), broadcast_strides(*dx.shape, shape)},
            [&](const std::array<std::int64_t, 3>& at) {
              dx.data[at[2]] += dy.data[i++] * derivative(left[at[0]], right[at[1]]);
            });
  }
}

void where_forward(OpArrays& c) {
  const Array& y = c.out[0];
  std::size_t i = 0;
  walk<3>(*y.shape,
          {broadcast_strides(*c.in[0].shape, *y.shape), broadcast_strides(*c.in[1].shape, *y.shape),
           broadcast_strides(*c.in[2].shape, *y.shape)},
          [&](const std::array<std::int64_t, 3>& at) {
            y.data[i++] = c.in[0].data[at[0]] != 0 ? c.in[1].data[at[1]] : c.in[2].data[at[2]];
          });
}

void where_backward(OpArrays& c) {
  const Array& dy = c.dy[0];
  for (const std::size_t side : {std::size_t{1}, std::size_t{2}}) {
    if (!c.wants(side)) continue;
    const Array& dx = c.dx[side];
    std::fill(dx.data, dx.data + dx.size(), 0.0F);
    std::size_t i = 0;
    walk<2>(*dy.shape, {broadcast_strides(*c.in[0].shape, *dy.shape), broadcast_strides(*dx.shape, *dy.shape)},
            [&](const std::array<std::int64_t, 2>& at) {
              const float gradient = dy.data[i++];
              if ((c.in[0].data[at[0]] != 0) == (side == 1)) dx.data[at[1]] += gradient;
            });
  }
}

enum class Many { sum, mean, max, min };

template <Many How>
void many_forward(OpArrays& c) {
  const Array& y = c.out[0];
  const std::size_t n = y.size();
  for (std::size_t k = 0; k < c.in.size(); ++k) {
    each_broadcast(*y.shape, *c.in[k].shape, [&](std::size_t i, std::size_t at) {
      const float x = c.in[k].data[at];
      float& to = y.data[i];
      if (k == 0)
        to = x;
      else if constexpr (How == Many::max)
        to = std::max(to, x);
      else if constexpr (How == Many::min)
        to = std::min(to, x);
      else
        to += x;
    });
  }
  if constexpr (How == Many::mean)
    for (std::size_t i = 0; i < n; ++i) y.data[i] /= static_cast<float>(c.in.size());
}

/// The gradient of a maximum goes to the first operand that attains it.
template <Many How>
void many_backward(OpArrays& c) {
  const Array& dy = c.dy[0];
  const Shape& shape = *dy.shape;
  if constexpr (How == Many::sum || How == Many::mean) {
    for (std::size_t k = 0; k < c.dx.size(); ++k) {
      if (!c.wants(k)) continue;
      sum_to_shape(dy.data, shape, c.dx[k]);
      if constexpr (How == Many::mean)
        for (std::size_t i = 0, n = c.dx[k].size(); i < n; ++i) c.dx[k].data[i] /= static_cast<float>(c.in.size());
    }
  } else {
    const std::size_t n = dy.size();
    std::vector<float> best(n);
    std::vector<std::size_t> who(n, 0);
    for (std::size_t k = 0; k < c.in.size(); ++k) {
      each_broadcast(shape, *c.in[k].shape, [&](std::size_t i, std::size_t at) {
        const float x = c.in[k].data[at];
        if (k == 0 || (How == Many::max ? x > best[i] : x < best[i])) best[i] = x, who[i] = k;
      });
    }
    for (std::size_t k = 0; k < c.dx.size(); ++k) {
      if (!c.wants(k)) continue;
      std::fill(c.dx[k].data, c.dx[k].data + c.dx[k].size(), 0.0F);
      each_broadcast(shape, *c.dx[k].shape, [&](std::size_t i, std::size_t at) {
        if (who[i] == k) c.dx[k].data[at] += dy.data[i];
      });
    }
  }
}

struct ConstantOne {
  float operator()(float, float) const { return 1; }
};

template <class F, class DA, class DB>
constexpr OpKernels smooth_binary(std::string_view type, F, DA, DB) {
  return {type, forward<F>, backward<DA, DB>};
}
/// The result is 1 or 0; no gradient passes.
template <class Holds>
constexpr OpKernels step_binary(std::string_view type, Holds) {
  struct Number {
    float operator()(float a, float b) const { return Holds{}(a, b) ? 1.0F : 0.0F; }
  };
  return {type, forward<Number>, nullptr};
}

struct Quotient {
  float operator()(float a, float b) const { return a / b; }
  struct ByDividend {
    float operator()(float, float b) const { return 1 / b; }
  };
  struct ByDivisor {
    float operator()(float a, float b) const { return -a / (b * b); }
  };
};
/// Integer division truncates towards 0.
void divide(OpArrays& c) {
  forward<Quotient>(c);
  if (is_floating_point(c.value(c.node.outputs[0]).type)) return;
  for (std::size_t i = 0, n = c.out[0].size(); i < n; ++i) c.out[0].data[i] = std::trunc(c.out[0].data[i]);
}

/// a - n b, with n = Whole(a / b).
template <float Whole(float)>
struct Remainder {
  float operator()(float a, float b) const { return a - b * Whole(a / b); }
  struct ByDivisor {
    float operator()(float a, float b) const { return -Whole(a / b); }
  };
};
float towards_zero(float x) { return std::trunc(x); }
float down(float x) { return std::floor(x); }

/// The remainder has the sign of the divisor; with `fmod`, of the dividend.
void remainder(OpArrays& c) {
  c.node.integer("fmod", 0) != 0 ? forward<Remainder<towards_zero>>(c) : forward<Remainder<down>>(c);
}
void remainder_backward(OpArrays& c) {
  c.node.integer("fmod", 0) != 0 ? backward<ConstantOne, Remainder<towards_zero>::ByDivisor>(c)
                                 : backward<ConstantOne, Remainder<down>::ByDivisor>(c);
}

constexpr OpKernels kOperands[] = {
    smooth_binary(
        "Add", [](float a, float b) { return a + b; }, ConstantOne{}, ConstantOne{}),
    smooth_binary(
        "Sub", [](float a, float b) { return a - b; }, ConstantOne{}, [](float, float) { return -1.0F; }),
    smooth_binary(
        "Mul", [](float a, float b) { return a * b; }, [](float, float b) { return b; },
        [](float a, float) { return a; }),
    {"Div", divide, backward<Quotient::ByDividend, Quotient::ByDivisor>},
    smooth_binary(
        "Pow", [](float a, float b) { return b == 2 ? a * a : std::pow(a, b); },
        [](float a, float b) { return b == 2 ? 2 * a : b * std::pow(a, b - 1); },
        [](float a, float b) { return std::pow(a, b) * std::log(a); }),
    smooth_binary(
        "PRelu", [](float a, float b) { return a > 0 ? a : a * b; }, [](float a, float b) { return a > 0 ? 1 : b; },
        [](float a, float) { return a > 0 ? 0 : a; }),
    {"Mod", remainder, remainder_backward},
    step_binary("Equal", [](float a, float b) { return a == b; }),
    step_binary("Greater", [](float a, float b) { return a > b; }),
    step_binary("Less", [](float a, float b) { return a < b; }),
    step_binary("GreaterOrEqual", [](float a, float b) { return a >= b; }),
    step_binary("LessOrEqual", [](float a, float b) { return a <= b; }),
    step_binary("And", [](float a, float b) { return a != 0 && b != 0; }),
    step_binary("Or", [](float a, float b) { return a != 0 || b != 0; }),
    step_binary("Xor", [](float a, float b) { return (a != 0) != (b != 0); }),
    {"Where", where_forward, where_backward},
    {"Sum", many_forward<Many::sum>, many_backward<Many::sum>},
    {"Mean", many_forward<Many::mean>, many_backward<Many::mean>},
    {"Max", many_forward<Many::max>, many_backward<Many::max>},
    {"Min", many_forward<Many::min>, many_backward<Many::min>},
};

}  // namespace

std::span<const OpKernels> operand_kernels() { return kOperands; }

}  // namespace trainyard::cpu
