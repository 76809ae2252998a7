// Element-wise ops, padding, and updates of parameters; follows kernels.cu.
// --- element-wise: f(x), and d(x, y) times the gradient ---
__device__ float logistic(float x) { return 1 / (1 + expf(-x)); }
__device__ float soft_plus(float x) { return x > 20 ? x : log1pf(expf(x)); }
#define UNARY(name, f, d)                                                                            \
  KERNEL name##_f(Out to, In in, float p, float q, u64 n) {         \
    EACH(i, n) { const float x = in[i]; (void)p; (void)q; to[i] = (f); }                             \
  }                                                                                                  \
  KERNEL name##_d(Out to, In dy, In in, In out, \
                                      float p, float q, u64 n) {                                     \
    EACH(i, n) {                                                                                     \
      const float x = in ? in[i] : 0, y = out ? out[i] : 0;                                          \
      (void)x; (void)y; (void)p; (void)q;                                                            \
      to[i] = dy[i] * (d);                                                                           \
    }                                                                                                \
  }
UNARY(Relu, x > 0 ? x : 0, y > 0 ? 1.0f : 0.0f)
UNARY(Sigmoid, logistic(x), y * (1 - y))
UNARY(Tanh, tanhf(x), 1 - y * y)
UNARY(Exp, expf(x), y)
UNARY(Sqrt, sqrtf(x), 0.5f / y)
UNARY(Reciprocal, 1 / x, -y * y)
UNARY(LeakyRelu, x > 0 ? x : p * x, x > 0 ? 1 : p)
UNARY(ThresholdedRelu, x > p ? x : 0, x > p ? 1.0f : 0.0f)
UNARY(Elu, x > 0 ? x : p * expm1f(x), x > 0 ? 1 : p * expf(x))
UNARY(Celu, x > 0 ? x : p * expm1f(x / p), x > 0 ? 1 : expf(x / p))
UNARY(Selu, q * (x > 0 ? x : p * expm1f(x)), q * (x > 0 ? 1 : p * expf(x)))
UNARY(HardSigmoid, fminf(1.0f, fmaxf(0.0f, p * x + q)), p * x + q > 0 && p * x + q < 1 ? p : 0)
UNARY(HardSwish, x * fminf(1.0f, fmaxf(0.0f, x / 6 + 0.5f)), x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5f)
UNARY(Gelu, 0.5f * x * (1 + erff(x * 0.70710678f)),
      0.5f * (1 + erff(x * 0.70710678f)) + x * 0.3989422804f * expf(-0.5f * x * x))
__device__ float gelu_tanh(float x) { return tanhf(0.7978845608f * (x + 0.044715f * x * x * x)); }
UNARY(GeluTanh, 0.5f * x * (1 + gelu_tanh(x)),
      0.5f * (1 + gelu_tanh(x)) +
          0.5f * x * (1 - gelu_tanh(x) * gelu_tanh(x)) * 0.7978845608f * (1 + 3 * 0.044715f * x * x))
UNARY(Erf, erff(x), 1.1283791671f * expf(-x * x))
UNARY(Log, logf(x), 1 / x)
UNARY(Abs, fabsf(x), x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f)
UNARY(Neg, -x, -1)
UNARY(Softplus, soft_plus(x), logistic(x))
UNARY(Softsign, x / (1 + fabsf(x)), 1 / ((1 + fabsf(x)) * (1 + fabsf(x))))
UNARY(Swish, x * logistic(p * x), logistic(p * x) + p * x * logistic(p * x) * (1 - logistic(p * x)))
UNARY(Mish, x * tanhf(soft_plus(x)),
      tanhf(soft_plus(x)) + x * (1 - tanhf(soft_plus(x)) * tanhf(soft_plus(x))) * logistic(x))
UNARY(Sin, sinf(x), cosf(x))
UNARY(Cos, cosf(x), -sinf(x))
UNARY(Clip, fminf(q, fmaxf(p, x)), x > p && x < q ? 1.0f : 0.0f)
UNARY(Identity, x, 1)
UNARY(Truncate, truncf(x), 1)
UNARY(Truth, x != 0 ? 1.0f : 0.0f, 1)
UNARY(Not, x == 0 ? 1.0f : 0.0f, 0)
UNARY(Floor, floorf(x), 0)
UNARY(Ceil, ceilf(x), 0)
UNARY(Sign, x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f, 0)

// --- two operands, broadcast: x at place a, y at place b; d* are the derivatives ---
#define BINARY(name, f, da, db)                                                                                  \
  KERNEL name##_f(Out to, In left, In right, Strides s, u64 n) {      \
    EACH(i, n) { i64 a, b, c; places(s, i, &a, &b, &c); const float x = left[a], y = right[b]; to[i] = (f); }    \
  }                                                                                                              \
  KERNEL name##_d(Out to, In dz, In left, In right,         \
                                      Strides s, u64 side, u64 n) {                                              \
    EACH(i, n) {                                                                                                 \
      i64 a, b, c;                                                                                               \
      places(s, i, &a, &b, &c);                                                                                  \
      const float x = left ? left[a] : 0, y = right ? right[b] : 0;                                              \
      (void)x; (void)y;                                                                                          \
      to[i] = dz[i] * (side == 0 ? (float)(da) : (float)(db));                                                   \
    }                                                                                                            \
  }
BINARY(Add, x + y, 1, 1)
BINARY(Sub, x - y, 1, -1)
BINARY(Mul, x * y, y, x)
BINARY(Div, x / y, 1 / y, -x / (y * y))
BINARY(Pow, powf(x, y), y * powf(x, y - 1), powf(x, y) * logf(x))
BINARY(PRelu, x > 0 ? x : x * y, x > 0 ? 1 : y, x > 0 ? 0 : x)
BINARY(Max, fmaxf(x, y), x >= y ? 1 : 0, x >= y ? 0 : 1)
BINARY(Min, fminf(x, y), x <= y ? 1 : 0, x <= y ? 0 : 1)
BINARY(Equal, x == y ? 1.0f : 0.0f, 0, 0)
BINARY(Greater, x > y ? 1.0f : 0.0f, 0, 0)
BINARY(Less, x < y ? 1.0f : 0.0f, 0, 0)
BINARY(GreaterOrEqual, x >= y ? 1.0f : 0.0f, 0, 0)
BINARY(LessOrEqual, x <= y ? 1.0f : 0.0f, 0, 0)
BINARY(And, x != 0 && y != 0 ? 1.0f : 0.0f, 0, 0)
BINARY(Or, x != 0 || y != 0 ? 1.0f : 0.0f, 0, 0)
KERNEL where_f(Out to, In truth, In x, In y, Strides s, u64 n) {
  EACH(i, n) { i64 a, b, c; places(s, i, &a, &b, &c); to[i] = truth[a] != 0 ? x[b] : y[c]; }
}
KERNEL where_d(Out to, In dz, In truth, Strides s, u64 side, u64 n) {
  EACH(i, n) {
    i64 a, b, c;
    places(s, i, &a, &b, &c);
    to[i] = (truth[a] != 0) == (side == 1) ? dz[i] : 0;
  }
}

// --- padding: element o of the padded array is element source(o) of the inner one, dimension by dimension ---
struct Padding { u64 rank, mode; i64 outer[8], inner[8], before[8]; };  // mode: constant, edge, wrap, reflect
__device__ i64 source(const Padding& p, u64 d, i64 o) {
  const i64 i = o - p.before[d], n = p.inner[d];
  if (i >= 0 && i < n) return i;
  if (p.mode == 1) return i < 0 ? 0 : n - 1;
  if (p.mode == 2) return (i % n + n) % n;
  if (p.mode != 3) return -1;
  if (n == 1) return 0;
  const i64 period = 2 * (n - 1), at = (i % period + period) % period;
  return at < n ? at : period - at;
}
KERNEL pad(Out y, In x, Padding p, In filler, float value, u64 n) {
  EACH(i, n) {
    u64 rest = i;
    i64 from = 0, scale = 1;
    for (u64 d = p.rank; d-- > 0;) {
      const i64 at = source(p, d, (i64)(rest % (u64)p.outer[d]));
      rest /= (u64)p.outer[d];
      from = at < 0 || from < 0 ? -1 : from + at * scale;
      scale *= p.inner[d];
    }
    y[i] = from >= 0 ? (float)x[from] : filler ? (float)filler[0] : value;
  }
}
// The first place from `o` on whose source is `i`, or the end.
__device__ i64 next_from(const Padding& p, u64 d, i64 o, i64 i) {
  while (o < p.outer[d] && source(p, d, o) != i) ++o;
  return o;
}
// Element i sums the gradients of all elements that came from it.
KERNEL pad_d(Out dx, In dy, Padding p, u64 n) {
  EACH(i, n) {
    i64 own[8], at[8];
    u64 rest = i;
    bool any = true;
    for (u64 d = p.rank; d-- > 0;) {
      own[d] = (i64)(rest % (u64)p.inner[d]);
      rest /= (u64)p.inner[d];
      at[d] = p.mode == 0 && p.before[d] + own[d] >= 0 ? p.before[d] + own[d] : next_from(p, d, 0, own[d]);
      any = any && at[d] < p.outer[d];
    }
    float sum = 0;
    while (any) {
      i64 place = 0;
      for (u64 d = 0; d < p.rank; ++d) place = place * p.outer[d] + at[d];
      sum += dy[place];
      any = false;
      for (u64 d = p.rank; p.mode != 0 && d-- > 0 && !any;) {
        at[d] = next_from(p, d, at[d] + 1, own[d]);
        any = at[d] < p.outer[d];
        if (!any) at[d] = next_from(p, d, 0, own[d]);
      }
    }
    dx[i] = sum;
  }
}

// --- updates; the new weights become current at the end of the step ---
KERNEL sgd_update(Out next, In w, In g, float rate, u64 n) {
  EACH(i, n) next[i] = w[i] - rate * g[i];
}
KERNEL momentum_update(Out next, Out v, In w, In g, float rate, float decay, u64 n) {
  EACH(i, n) { v[i] = decay * v[i] + g[i]; next[i] = w[i] - rate * v[i]; }
}
KERNEL adam_update(Out next, Out m, Out v, In w, In g, float rate, float b1,
                                       float b2, In corrections, u64 n) {
  const float c1 = corrections[0], c2 = corrections[1];
  EACH(i, n) {
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    next[i] = w[i] - rate / c1 * m[i] / (sqrtf(v[i] / c2) + 1e-8f);
  }
}
