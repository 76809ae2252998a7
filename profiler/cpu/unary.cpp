#include <cmath>
#include <limits>

#include "profiler/cpu/kernel_tables.hpp"
#include "profiler/cpu/team.hpp"

namespace trainyard::cpu {
namespace {

/// The numbers that an element-wise operator takes.
struct Numbers {
  float a = 0, b = 0;
};

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Each with y = f(x) and its derivative d(x, y). Those whose backward rule reads the output do not look at x.
struct Plain {
  static Numbers numbers(const OpArrays&) { return {}; }
};
template <int Default1000>
struct Alpha {
  static Numbers numbers(const OpArrays& c) {
    return {static_cast<float>(c.node.real("alpha", Default1000 / 1000.0)), 0};
  }
};
struct Relu : Plain {
  static float f(float x, Numbers) { return x > 0 ? x : 0; }
  static float d(float, float y, Numbers) { return y > 0 ? 1.0F : 0.0F; }
};
struct Sigmoid : Plain {
  static float f(float x, Numbers) { return sigmoid(x); }
  static float d(float, float y, Numbers) { return y * (1 - y); }
};
struct Tanh : Plain {
  static float f(float x, Numbers) { return std::tanh(x); }
  static float d(float, float y, Numbers) { return 1 - y * y; }
};
struct Exp : Plain {
  static float f(float x, Numbers) { return std::exp(x); }
  static float d(float, float y, Numbers) { return y; }
};
struct Sqrt : Plain {
  static float f(float x, Numbers) { return std::sqrt(x); }
  static float d(float, float y, Numbers) { return 0.5F / y; }
};
struct Reciprocal : Plain {
  static float f(float x, Numbers) { return 1 / x; }
  static float d(float, float y, Numbers) { return -y * y; }
};
struct LeakyRelu : Alpha<10> {
  static float f(float x, Numbers n) { return x > 0 ? x : n.a * x; }
  static float d(float x, float, Numbers n) { return x > 0 ? 1 : n.a; }
};
struct ThresholdedRelu : Alpha<1000> {
  static float f(float x, Numbers n) { return x > n.a ? x : 0; }
  static float d(float x, float, Numbers n) { return x > n.a ? 1.0F : 0.0F; }
};
struct Elu : Alpha<1000> {
  static float f(float x, Numbers n) { return x > 0 ? x : n.a * std::expm1(x); }
  static float d(float x, float, Numbers n) { return x > 0 ? 1 : n.a * std::exp(x); }
};
struct Celu : Alpha<1000> {
  static float f(float x, Numbers n) { return x > 0 ? x : n.a * std::expm1(x / n.a); }
  static float d(float x, float, Numbers n) { return x > 0 ? 1 : std::exp(x / n.a); }
};
struct Selu {
  static Numbers numbers(const OpArrays& c) {
    return {static_cast<float>(c.node.real("alpha", 1.67326319217681884765625)),
            static_cast<float>(c.node.real("gamma", 1.05070102214813232421875))};
  }
  static float f(float x, Numbers n) { return n.b * (x > 0 ? x : n.a * std::expm1(x)); }
  static float d(float x, float, Numbers n) { return n.b * (x > 0 ? 1 : n.a * std::exp(x)); }
};
struct HardSigmoid {
  static Numbers numbers(const OpArrays& c) {
    return {static_cast<float>(c.node.real("alpha", 0.2)), static_cast<float>(c.node.real("beta", 0.5))};
  }
  static float f(float x, Numbers n) { return std::fmin(1.0F, std::fmax(0.0F, n.a * x + n.b)); }
  static float d(float x, float, Numbers n) { return n.a * x + n.b > 0 && n.a * x + n.b < 1 ? n.a : 0; }
};
struct HardSwish : Plain {
  static float f(float x, Numbers) { return x * std::fmin(1.0F, std::fmax(0.0F, x / 6 + 0.5F)); }
  static float d(float x, float, Numbers) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5F; }
};
struct Gelu {
  static Numbers numbers(const OpArrays& c) { return {c.node.text("approximate", "none") == "tanh" ? 1.0F : 0.0F, 0}; }
  static constexpr float kInner = 0.7978845608F, kCubic = 0.044715F;  // sqrt(2 / pi)
  static float f(float x, Numbers n) {
    if (n.a > 0) return 0.5F * x * (1 + std::tanh(kInner * (x + kCubic * x * x * x)));
    return 0.5F * x * (1 + std::erf(x * 0.70710678F));
  }
  static float d(float x, float, Numbers n) {
    if (n.a > 0) {
      const float t = std::tanh(kInner * (x + kCubic * x * x * x));
      return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kInner * (1 + 3 * kCubic * x * x);
    }
    return 0.5F * (1 + std::erf(x * 0.70710678F)) + x * 0.3989422804F * std::exp(-0.5F * x * x);
  }
};
struct Erf : Plain {
  static float f(float x, Numbers) { return std::erf(x); }
  static float d(float x, float, Numbers) { return 1.1283791671F * std::exp(-x * x); }
};
struct Log : Plain {
  static float f(float x, Numbers) { return std::log(x); }
  static float d(float x, float, Numbers) { return 1 / x; }
};
struct Abs : Plain {
  static float f(float x, Numbers) { return std::fabs(x); }
  static float d(float x, float, Numbers) { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }
};
struct Neg : Plain {
  static float f(float x, Numbers) { return -x; }
  static float d(float, float, Numbers) { return -1; }
};
struct Softplus : Plain {
  static float f(float x, Numbers) { return x > 20 ? x : std::log1p(std::exp(x)); }
  static float d(float x, float, Numbers) { return sigmoid(x); }
};
struct Softsign : Plain {
  static float f(float x, Numbers) { return x / (1 + std::fabs(x)); }
  static float d(float x, float, Numbers) { return 1 / ((1 + std::fabs(x)) * (1 + std::fabs(x))); }
};
struct Swish : Alpha<1000> {
  static float f(float x, Numbers n) { return x * sigmoid(n.a * x); }
  static float d(float x, float, Numbers n) {
    const float s = sigmoid(n.a * x);
    return s + n.a * x * s * (1 - s);
  }
};
struct Mish : Plain {
  static float f(float x, Numbers) { return x * std::tanh(Softplus::f(x, {})); }
  static float d(float x, float, Numbers) {
    const float t = std::tanh(Softplus::f(x, {}));
    return t + x * (1 - t * t) * sigmoid(x);
  }
};
struct Sin : Plain {
  static float f(float x, Numbers) { return std::sin(x); }
  static float d(float x, float, Numbers) { return std::cos(x); }
};
struct Cos : Plain {
  static float f(float x, Numbers) { return std::cos(x); }
  static float d(float x, float, Numbers) { return -std::sin(x); }
};
struct Tan : Plain {
  static float f(float x, Numbers) { return std::tan(x); }
  static float d(float x, float, Numbers) { return 1 + std::tan(x) * std::tan(x); }
};
struct Asin : Plain {
  static float f(float x, Numbers) { return std::asin(x); }
  static float d(float x, float, Numbers) { return 1 / std::sqrt(1 - x * x); }
};
struct Acos : Plain {
  static float f(float x, Numbers) { return std::acos(x); }
  static float d(float x, float, Numbers) { return -1 / std::sqrt(1 - x * x); }
};
struct Atan : Plain {
  static float f(float x, Numbers) { return std::atan(x); }
  static float d(float x, float, Numbers) { return 1 / (1 + x * x); }
};
struct Sinh : Plain {
  static float f(float x, Numbers) { return std::sinh(x); }
  static float d(float x, float, Numbers) { return std::cosh(x); }
};
struct Cosh : Plain {
  static float f(float x, Numbers) { return std::cosh(x); }
  static float d(float x, float, Numbers) { return std::sinh(x); }
};
struct Asinh : Plain {
  static float f(float x, Numbers) { return std::asinh(x); }
  static float d(float x, float, Numbers) { return 1 / std::sqrt(1 + x * x); }
};
struct Acosh : Plain {
  static float f(float x, Numbers) { return std::acosh(x); }
  static float d(float x, float, Numbers) { return 1 / std::sqrt(x * x - 1); }
};
struct Atanh : Plain {
  static float f(float x, Numbers) { return std::atanh(x); }
  static float d(float x, float, Numbers) { return 1 / (1 - x * x); }
};
struct ScaledTanh : Alpha<1000> {
  static float f(float x, Numbers n) { return n.a * std::tanh(x); }
  static float d(float x, float, Numbers n) { return n.a * (1 - std::tanh(x) * std::tanh(x)); }
};
struct Shrink {
  static Numbers numbers(const OpArrays& c) {
    return {static_cast<float>(c.node.real("lambd", 0.5)), static_cast<float>(c.node.real("bias", 0))};
  }
  static float f(float x, Numbers n) { return x < -n.a ? x + n.b : x > n.a ? x - n.b : 0; }
  static float d(float x, float, Numbers n) { return x < -n.a || x > n.a ? 1.0F : 0.0F; }
};
struct Clip {
  static Numbers numbers(const OpArrays& c) {
    const auto bound = [&](std::size_t i, const char* key, double otherwise) {
      return c.input(i) ? c.in[i].data[0] : static_cast<float>(c.node.real(key, otherwise));
    };
    constexpr double kMost = std::numeric_limits<float>::max();
    return {bound(1, "min", -kMost), bound(2, "max", kMost)};
  }
  static float f(float x, Numbers n) { return std::fmin(n.b, std::fmax(n.a, x)); }
  static float d(float x, float, Numbers n) { return x > n.a && x < n.b ? 1.0F : 0.0F; }
};
struct Same : Plain {
  static float f(float x, Numbers) { return x; }
  static float d(float, float, Numbers) { return 1; }
};
struct Floor : Plain {
  static float f(float x, Numbers) { return std::floor(x); }
};
struct Ceil : Plain {
  static float f(float x, Numbers) { return std::ceil(x); }
};
struct Round : Plain {
  static float f(float x, Numbers) { return std::nearbyint(x); }
};
struct Sign : Plain {
  static float f(float x, Numbers) { return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F; }
};
struct Not : Plain {
  static float f(float x, Numbers) { return x == 0 ? 1.0F : 0.0F; }
};
struct IsNaN : Plain {
  static float f(float x, Numbers) { return std::isnan(x) ? 1.0F : 0.0F; }
};
struct IsInf : Plain {
  static float f(float x, Numbers) { return std::isinf(x) ? 1.0F : 0.0F; }
};

template <class Op>
void forward(OpArrays& c) {
  const Numbers numbers = Op::numbers(c);
  const float* x = c.in[0].data;
  float* y = c.out[0].data;
  in_parallel(static_cast<std::int64_t>(c.out[0].size()), 4096, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) y[i] = Op::f(x[i], numbers);
  });
}

template <class Op>
void backward(OpArrays& c) {
  if (!c.wants(0)) return;
  const Numbers numbers = Op::numbers(c);
  const float* x = c.in[0].data;
  const float* y = c.out[0].data;
  const float* dy = c.dy[0].data;
  float* dx = c.dx[0].data;
  in_parallel(static_cast<std::int64_t>(c.dx[0].size()), 4096, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) dx[i] = dy[i] * Op::d(x ? x[i] : 0.0F, y ? y[i] : 0.0F, numbers);
  });
}

/// To a whole number where the new type is one, as ONNX: towards zero.
void cast(OpArrays& c) {
  const DataType type = c.value(c.node.outputs[0]).type;
  const float* x = c.in[0].data;
  float* y = c.out[0].data;
  for (std::size_t i = 0, n = c.out[0].size(); i < n; ++i)
    y[i] = is_floating_point(type)     ? x[i]
           : type == DataType::boolean ? static_cast<float>(x[i] != 0)
                                       : std::trunc(x[i]);
}

template <class Op>
constexpr OpKernels both(std::string_view type) {
  return {type, forward<Op>, backward<Op>};
}
template <class Op>
constexpr OpKernels only(std::string_view type) {
  return {type, forward<Op>, nullptr};
}

constexpr OpKernels kUnary[] = {
    both<Relu>("Relu"),
    both<Sigmoid>("Sigmoid"),
    both<Tanh>("Tanh"),
    both<Exp>("Exp"),
    both<Sqrt>("Sqrt"),
    both<Reciprocal>("Reciprocal"),
    both<LeakyRelu>("LeakyRelu"),
    both<ThresholdedRelu>("ThresholdedRelu"),
    both<Elu>("Elu"),
    both<Celu>("Celu"),
    both<Selu>("Selu"),
    both<HardSigmoid>("HardSigmoid"),
    both<HardSwish>("HardSwish"),
    both<Gelu>("Gelu"),
    both<Erf>("Erf"),
    both<Log>("Log"),
    both<Abs>("Abs"),
    both<Neg>("Neg"),
    both<Softplus>("Softplus"),
    both<Softsign>("Softsign"),
    both<Swish>("Swish"),
    both<Mish>("Mish"),
    both<Sin>("Sin"),
    both<Cos>("Cos"),
    both<Tan>("Tan"),
    both<Asin>("Asin"),
    both<Acos>("Acos"),
    both<Atan>("Atan"),
    both<Sinh>("Sinh"),
    both<Cosh>("Cosh"),
    both<Asinh>("Asinh"),
    both<Acosh>("Acosh"),
    both<Atanh>("Atanh"),
    both<ScaledTanh>("ScaledTanh"),
    both<Shrink>("Shrink"),
    both<Clip>("Clip"),
    both<Same>("Identity"),
    {"Cast", cast, backward<Same>},
    {"CastLike", cast, backward<Same>},
    only<Floor>("Floor"),
    only<Ceil>("Ceil"),
    only<Round>("Round"),
    only<Sign>("Sign"),
    only<Not>("Not"),
    only<IsNaN>("IsNaN"),
    only<IsInf>("IsInf"),
};

}  // namespace

std::span<const OpKernels> unary_kernels() { return kUnary; }

}  // namespace trainyard::cpu
