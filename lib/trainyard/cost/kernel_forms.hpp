#pragma once

#include <cstdint>

namespace trainyard {

/// Closed forms for the times of GPU kernels, in seconds. Symbols: S multiprocessors, F peak FLOP/s of the computing
/// unit, W memory bandwidth of the data sheet in bytes/s, es bytes per element. Times exclude the constant t0 of the
/// measurement. Fits and errors: data/calibrations/kernels.json, bench/README.md.
///
///     product      y[M,N] = x[M,K] w[K,N], B of them; T x power(T), T = max(C, D) + o min(C, D)
///       C          minimum over tiles (bm, bn) and splits s of K: rounds x 2 bm bn (ceil(K/s) + k0) / (F/S x eff)
///                  + [s > 1] 8 s B M N / (W em);  rounds = q ceil(n) + (1 - q) max(n, 1), with n tiles per SM;
///                  linear layers: x (1 + h / (1 + (N0/N)^3) (M/4096)^gam), since rows of w fall out of the cache
///       eff        min(1.05 e, e / max(0.05, 1 + cm (1/bm - 1/128) + cn (1/bn - 1/128))): reuse in shared memory
///       D          es B (M K + K N + M N) / (W em)
///       power(T)   1 + (r - 1) / (1 + (tau / T)^2): long kernels of power-limited cards run at a lower clock
///     softmax      B rows of H: es B H (2 + [H > 1024] p / (1 + (H0/H)^k)) w / (W u);  rows up to 1024 fit in
///                  registers, with w = 1; otherwise w = 1 + a (slots(H) - 1)
///     layer norm   es B H (2 + p / (1 + (H0/H)^k)) (1 + a (slots(H) - 1)) (1 + short max(0, 1024/H - 1)) / (W u)
///       slots(H)   ratio of thread slots to vectors of a row: ceil(v/b) b / v, with v = H/4 and b the power of two >=
///                  min(v, 1024) / 2, at least 32
///     elementwise  bytes / (W u); u for two inputs, one input, or a power with a constant exponent
///     convolution  min(product, [3x3, stride 1] Winograd 2x2 in one kernel, Winograd 4x4 through memory). The
///                  forward pass, data gradient and filter gradient are separate products. Groups are a batch of
///                  products without Winograd; groups of up to 4 channels (depthwise) are one pass over their bytes or
///                  FLOPs
///     recurrent    steps x (floor + ((g h^2 es / (W x1))^4 + (FLOPs of a step / (F x2))^4)^(1/4))
///
/// Source of the forms: fitted to NeuSight's kernels (Lee et al., ASPLOS 2025), DeepBench's and Aceso's (Liu et al.,
/// EuroSys 2024); blocking as in cuBLAS and CUTLASS, Winograd as in Lavin and Gray, CVPR 2016.
struct KernelUnit {
  double multiprocessors = 0;  // S
  double peak = 0;             // F
  double bandwidth = 0;        // W
  double element = 4;          // es
  double cache = 0;            // bytes of L2
};

/// Sizes of y[M,N] = x[M,K] w[K,N], `batch` of them.
struct ProductShape {
  double batch = 1, m = 1, n = 1, k = 1;
};
struct ProductForm {
  double e, cm, cn, k0, q, em, o, t0_us, h, n0, gam, r, tau_ms;
  friend bool operator==(const ProductForm&, const ProductForm&) = default;
};
/// Seconds of a product. `wide`: include the term in h, for linear layers.
double product_seconds(const ProductForm& form, const ProductShape& shape, const KernelUnit& unit, bool wide);

/// Products of 16-bit numbers on tensor cores in a training step: cm = cn = c with e reached at 256 x 128, em 0.85. The
/// start and end of a tile take `tile_ps` picoseconds per element on any GPU, so k0 = tile_ps F / (2 S). Products in a
/// layer's forward pass (`wide`), whose weights are read transposed, take `across` times as long.
struct HalfProductForm {
  double e, tile_ps, q, c, o, across;
};
double half_product_seconds(const HalfProductForm& form, const ProductShape& shape, const KernelUnit& unit, bool wide);

/// Streaming kernels of 16-bit numbers in a training step: shares of the bandwidth, for forward and gradient kernels.
/// Bytes per element: 4 forward (read and write), 6 backward (also the value kept from the forward pass), and 5 for
/// dropout in both passes (with its mask).
struct HalfRowsForm {
  double softmax, softmax_back, norm, norm_back, unary, unary_back, dropout, dropout_back;
};

/// Products of few columns with hot caches (DeepBench): cm = cn = c, splits of K with at least ks each, and in D the
/// bandwidth W em (1 + (lx - 1) / (1 + (bytes / L2)^2)). A transposed first operand multiplies the time by ta.
struct NarrowForm {
  double e, c, k0, q, em, lx, o, t0_us, ks, ta;
};
double narrow_seconds(const NarrowForm& form, const ProductShape& shape, bool transposed, const KernelUnit& unit);

struct SoftmaxForm {
  double u1, u2, p, h0, k, a, t0_us;
};
double softmax_seconds(const SoftmaxForm& form, double rows, double width, const KernelUnit& unit);

struct LayerNormForm {
  double u, short_rows, p, h0, k, a, t0_us;
};
double layer_norm_seconds(const LayerNormForm& form, double rows, double width, const KernelUnit& unit);

enum class ElementwiseKind : std::uint8_t { two_inputs, one_input, power };
struct ElementwiseForm {
  double u_two, u_one, u_power, t0_us;
};
double elementwise_seconds(const ElementwiseForm& form, ElementwiseKind kind, double bytes, const KernelUnit& unit);

/// Convolution of x[n,c,h,w] with k filters [c,r,s] to y[n,k,oh,ow]. With several groups, c and k are per group, and
/// one kernel runs all. With one spatial dimension, h, r and oh are 1; with three, they are depth times height.
struct ConvolutionShape {
  double n, c, h, w, k, r, s, oh, ow, stride_h, stride_w;
  double groups = 1;
};
enum class ConvolutionWay : std::uint8_t { forward, data, filter };
struct ConvolutionForm {
  double e, c, k0, em, o, t0_us;
  double d1, d2;          // factors on e: data, filter
  double ks0, ks1, ks2;   // least K of a split: forward, data, filter
  double q0, q1, q2;      // q: forward, data, filter
  double wf, wn, wb, w2;  // Winograd: one kernel; products and traffic of the other; one kernel, filter gradient
  double st, alpha, st2;  // strided data gradient, 1x1; share of peak without tensor cores; strided, larger filters
  double ws;              // share of peak: data gradient of up to 4 channels
};
double convolution_seconds(const ConvolutionForm& form, const ConvolutionShape& shape, ConvolutionWay way,
                           const KernelUnit& unit);

struct RecurrentForm {
  double floor_us, x1, x2, back_floor_us, back_x1, back_x2;
};
/// Seconds of a recurrent op. Each of the `steps` steps reads `weights` bytes and computes `flops` FLOPs; `backward`:
/// the gradient's parameters.
double recurrent_seconds(const RecurrentForm& form, double steps, double weights, double flops, bool backward,
                         const KernelUnit& unit);

}  // namespace trainyard
