#include <cmath>
#include <limits>
#include <type_traits>

#include "profiler/kernels/cpu/kernel_tables.hpp"
#include "profiler/kernels/cpu/team.hpp"

namespace trainyard::cpu {
namespace {

/// Parameters of an element-wise operator.
struct Numbers {
  float a = 0, b = 0;
};

float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Parameters of an operator, from its attributes.
Numbers no_numbers(const OpArrays&) { return {}; }
template <int Thousandths>
Numbers alpha(const OpArrays& c) {
  return {static_cast<float>(c.node.real("alpha", Thousandths / 1000.0)), 0};
}
Numbers selu_numbers(const OpArrays& c) {
  return {static_cast<float>(c.node.real("alpha", 1.67326319217681884765625)),
          static_cast<float>(c.node.real("gamma", 1.05070102214813232421875))};
}
Numbers hard_sigmoid_numbers(const OpArrays& c) {
  return {static_cast<float>(c.node.real("alpha", 0.2)), static_cast<float>(c.node.real("beta", 0.5))};
}
Numbers gelu_numbers(const OpArrays& c) { return {c.node.text("approximate", "none") == "tanh" ? 1.0F : 0.0F, 0}; }
Numbers shrink_numbers(const OpArrays& c) {
  return {static_cast<float>(c.node.real("lambd", 0.5)), static_cast<float>(c.node.real("bias", 0))};
}
Numbers clip_numbers(const OpArrays& c) {
  const auto bound = [&](std::size_t i, const char* key, double otherwise) {
    return c.input(i) ? c.in[i].data[0] : static_cast<float>(c.node.real(key, otherwise));
  };
  constexpr double kMost = std::numeric_limits<float>::max();
  return {bound(1, "min", -kMost), bound(2, "max", kMost)};
}
/// Answers of IsInf for the positive and the negative infinity.
Numbers infinity_numbers(const OpArrays& c) {
  const auto detects = [&](const char* key) { return c.node.integer(key, 1) != 0 ? 1.0F : 0.0F; };
  return {detects("detect_positive"), detects("detect_negative")};
}

constexpr float kInner = 0.7978845608F, kCubic = 0.044715F;  // of gelu's tanh approximation; kInner: sqrt(2 / pi)
float gelu(float x, Numbers n) {
  if (n.a > 0) return 0.5F * x * (1 + std::tanh(kInner * (x + kCubic * x * x * x)));
  return 0.5F * x * (1 + std::erf(x * 0.70710678F));
}
float gelu_slope(float x, Numbers n) {
  if (n.a > 0) {
    const float t = std::tanh(kInner * (x + kCubic * x * x * x));
    return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kInner * (1 + 3 * kCubic * x * x);
  }
  return 0.5F * (1 + std::erf(x * 0.70710678F)) + x * 0.3989422804F * std::exp(-0.5F * x * x);
}
float swish_slope(float x, Numbers n) {
  const float s = sigmoid(n.a * x);
  return s + n.a * x * s * (1 - s);
}
float mish_slope(float x) {
  const float t = std::tanh(softplus(x));
  return t + x * (1 - t * t) * sigmoid(x);
}
struct One {
  float operator()(float) const { return 1; }
};

/// y = F(x) or F(x, numbers).
template <class F, auto Read>
void forward(OpArrays& c) {
  const Numbers numbers = Read(c);
  const float* x = c.in[0].data;
  float* y = c.out[0].data;
  in_parallel(static_cast<std::int64_t>(c.out[0].size()), 4096, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      if constexpr (std::is_invocable_v<F, float, Numbers>)
        y[i] = F{}(x[i], numbers);
      else
        y[i] = F{}(x[i]);
  });
}

/// dx = dy times D(x), D(x, numbers), or D(x, y) for rules that read the output and not x.
template <class D, auto Read>
void backward(OpArrays& c) {
  if (!c.wants(0)) return;
  const Numbers numbers = Read(c);
  const float* x = c.in[0].data;
  const float* y = c.out[0].data;
  const float* dy = c.dy[0].data;
  float* dx = c.dx[0].data;
  in_parallel(static_cast<std::int64_t>(c.dx[0].size()), 4096, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const float at = x ? x[i] : 0.0F;
      if constexpr (std::is_invocable_v<D, float, Numbers>)
        dx[i] = dy[i] * D{}(at, numbers);
      else if constexpr (std::is_invocable_v<D, float, float>)
        dx[i] = dy[i] * D{}(at, y ? y[i] : 0.0F);
      else
        dx[i] = dy[i] * D{}(at);
    }
  });
}

template <auto Read = no_numbers, class F, class D>
constexpr OpKernels smooth_op(std::string_view type, F, D) {
  return {type, forward<F, Read>, backward<D, Read>};
}
/// No gradient passes.
template <auto Read = no_numbers, class F>
constexpr OpKernels step_op(std::string_view type, F) {
  return {type, forward<F, Read>, nullptr};
}

/// Casts to integers truncate towards zero, as in ONNX.
void cast(OpArrays& c) {
  const DataType type = c.value(c.node.outputs[0]).type;
  const float* x = c.in[0].data;
  float* y = c.out[0].data;
  for (std::size_t i = 0, n = c.out[0].size(); i < n; ++i)
    y[i] = is_floating_point(type)     ? x[i]
           : type == DataType::boolean ? static_cast<float>(x[i] != 0)
                                       : std::trunc(x[i]);
}

constexpr OpKernels kUnary[] = {
    smooth_op(
        "Relu", [](float x) { return x > 0 ? x : 0; }, [](float, float y) { return y > 0 ? 1.0F : 0.0F; }),
    smooth_op(
        "Sigmoid", [](float x) { return sigmoid(x); }, [](float, float y) { return y * (1 - y); }),
    smooth_op(
        "Tanh", [](float x) { return std::tanh(x); }, [](float, float y) { return 1 - y * y; }),
    smooth_op(
        "Exp", [](float x) { return std::exp(x); }, [](float, float y) { return y; }),
    smooth_op(
        "Sqrt", [](float x) { return std::sqrt(x); }, [](float, float y) { return 0.5F / y; }),
    smooth_op(
        "Reciprocal", [](float x) { return 1 / x; }, [](float, float y) { return -y * y; }),
    smooth_op<alpha<10>>(
        "LeakyRelu", [](float x, Numbers n) { return x > 0 ? x : n.a * x; },
        [](float x, Numbers n) { return x > 0 ? 1 : n.a; }),
    smooth_op<alpha<1000>>(
        "ThresholdedRelu", [](float x, Numbers n) { return x > n.a ? x : 0; },
        [](float x, Numbers n) { return x > n.a ? 1.0F : 0.0F; }),
    smooth_op<alpha<1000>>(
        "Elu", [](float x, Numbers n) { return x > 0 ? x : n.a * std::expm1(x); },
        [](float x, Numbers n) { return x > 0 ? 1 : n.a * std::exp(x); }),
    smooth_op<alpha<1000>>(
        "Celu", [](float x, Numbers n) { return x > 0 ? x : n.a * std::expm1(x / n.a); },
        [](float x, Numbers n) { return x > 0 ? 1 : std::exp(x / n.a); }),
    smooth_op<selu_numbers>(
        "Selu", [](float x, Numbers n) { return n.b * (x > 0 ? x : n.a * std::expm1(x)); },
        [](float x, Numbers n) { return n.b * (x > 0 ? 1 : n.a * std::exp(x)); }),
    smooth_op<hard_sigmoid_numbers>(
        "HardSigmoid", [](float x, Numbers n) { return std::fmin(1.0F, std::fmax(0.0F, n.a * x + n.b)); },
        [](float x, Numbers n) { return n.a * x + n.b > 0 && n.a * x + n.b < 1 ? n.a : 0; }),
    smooth_op(
        "HardSwish", [](float x) { return x * std::fmin(1.0F, std::fmax(0.0F, x / 6 + 0.5F)); },
        [](float x) { return x <= -3  ? 0
                             : x >= 3 ? 1
                                      : x / 3 + 0.5F; }),
    smooth_op<gelu_numbers>(
        "Gelu", [](float x, Numbers n) { return gelu(x, n); }, [](float x, Numbers n) { return gelu_slope(x, n); }),
    smooth_op(
        "Erf", [](float x) { return std::erf(x); }, [](float x) { return 1.1283791671F * std::exp(-x * x); }),
    smooth_op(
        "Log", [](float x) { return std::log(x); }, [](float x) { return 1 / x; }),
    smooth_op(
        "Abs", [](float x) { return std::fabs(x); }, [](float x) { return x > 0   ? 1.0F
                                                                          : x < 0 ? -1.0F
                                                                                  : 0.0F; }),
    smooth_op(
        "Neg", [](float x) { return -x; }, [](float) { return -1.0F; }),
    smooth_op(
        "Softplus", [](float x) { return softplus(x); }, [](float x) { return sigmoid(x); }),
    smooth_op(
        "Softsign", [](float x) { return x / (1 + std::fabs(x)); },
        [](float x) { return 1 / ((1 + std::fabs(x)) * (1 + std::fabs(x))); }),
    smooth_op<alpha<1000>>(
        "Swish", [](float x, Numbers n) { return x * sigmoid(n.a * x); },
        [](float x, Numbers n) { return swish_slope(x, n); }),
    smooth_op(
        "Mish", [](float x) { return x * std::tanh(softplus(x)); }, [](float x) { return mish_slope(x); }),
    smooth_op(
        "Sin", [](float x) { return std::sin(x); }, [](float x) { return std::cos(x); }),
    smooth_op(
        "Cos", [](float x) { return std::cos(x); }, [](float x) { return -std::sin(x); }),
    smooth_op(
        "Tan", [](float x) { return std::tan(x); }, [](float x) { return 1 + std::tan(x) * std::tan(x); }),
    smooth_op(
        "Asin", [](float x) { return std::asin(x); }, [](float x) { return 1 / std::sqrt(1 - x * x); }),
    smooth_op(
        "Acos", [](float x) { return std::acos(x); }, [](float x) { return -1 / std::sqrt(1 - x * x); }),
    smooth_op(
        "Atan", [](float x) { return std::atan(x); }, [](float x) { return 1 / (1 + x * x); }),
    smooth_op(
        "Sinh", [](float x) { return std::sinh(x); }, [](float x) { return std::cosh(x); }),
    smooth_op(
        "Cosh", [](float x) { return std::cosh(x); }, [](float x) { return std::sinh(x); }),
    smooth_op(
        "Asinh", [](float x) { return std::asinh(x); }, [](float x) { return 1 / std::sqrt(1 + x * x); }),
    smooth_op(
        "Acosh", [](float x) { return std::acosh(x); }, [](float x) { return 1 / std::sqrt(x * x - 1); }),
    smooth_op(
        "Atanh", [](float x) { return std::atanh(x); }, [](float x) { return 1 / (1 - x * x); }),
    smooth_op<alpha<1000>>(
        "ScaledTanh", [](float x, Numbers n) { return n.a * std::tanh(x); },
        [](float x, Numbers n) { return n.a * (1 - std::tanh(x) * std::tanh(x)); }),
    smooth_op<shrink_numbers>(
        "Shrink", [](float x, Numbers n) { return x < -n.a  ? x + n.b
                                                  : x > n.a ? x - n.b
                                                            : 0; },
        [](float x, Numbers n) { return x < -n.a || x > n.a ? 1.0F : 0.0F; }),
    smooth_op<clip_numbers>(
        "Clip", [](float x, Numbers n) { return std::fmin(n.b, std::fmax(n.a, x)); },
        [](float x, Numbers n) { return x > n.a && x < n.b ? 1.0F : 0.0F; }),
    smooth_op(
        "Identity", [](float x) { return x; }, One{}),
    {"Cast", cast, backward<One, no_numbers>},
    {"CastLike", cast, backward<One, no_numbers>},
    step_op("Floor", [](float x) { return std::floor(x); }),
    step_op("Ceil", [](float x) { return std::ceil(x); }),
    step_op("Round", [](float x) { return std::nearbyint(x); }),
    step_op("Sign", [](float x) { return x > 0   ? 1.0F
                                         : x < 0 ? -1.0F
                                                 : 0.0F; }),
    step_op("Not", [](float x) { return x == 0 ? 1.0F : 0.0F; }),
    step_op("IsNaN", [](float x) { return std::isnan(x) ? 1.0F : 0.0F; }),
    step_op<infinity_numbers>("IsInf", [](float x, Numbers n) { return std::isinf(x) ? (x > 0 ? n.a : n.b) : 0; }),
};

}  // namespace

std::span<const OpKernels> unary_kernels() { return kUnary; }

}  // namespace trainyard::cpu
