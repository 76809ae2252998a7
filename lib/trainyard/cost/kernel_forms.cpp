#include "trainyard/cost/kernel_forms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace trainyard {
namespace {

struct Tile {
  double m, n;
};
constexpr std::array<Tile, 13> kTiles{{{256, 128},
                                       {128, 256},
                                       {128, 128},
                                       {128, 64},
                                       {64, 128},
                                       {64, 64},
                                       {32, 128},
                                       {128, 32},
                                       {32, 64},
                                       {64, 32},
                                       {32, 32},
                                       {128, 16},
                                       {64, 16}}};
constexpr std::array<double, 8> kSplits{1, 2, 3, 4, 6, 8, 12, 16};
constexpr std::array<double, 8> kPowers{1, 2, 4, 8, 16, 32, 64, 128};

/// Tiles and splits of K of a product, and the efficiency of its blocks.
struct Blocking {
  std::span<const Tile> tiles;
  std::span<const double> splits;
  double least_k;         // least K of a split
  double e, cm, cn;       // efficiency of a tile
  double from_m, from_n;  // 1 / sizes of the tile that reaches e
  double best, floor;     // largest multiple of e; least divisor
  double k0, q;
  double split_bandwidth;
};

/// C of the header: the time of the multiply-adds.
double computing(const Blocking& how, const ProductShape& shape, const KernelUnit& unit) {
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : how.tiles) {
    const double slower = 1 + how.cm * (1 / tile.m - how.from_m) + how.cn * (1 / tile.n - how.from_n);
    const double reached = std::min(how.best * how.e, how.e / std::max(how.floor, slower));
    const double blocks = std::ceil(shape.m / tile.m) * std::ceil(shape.n / tile.n) * shape.batch;
    const double area = 2 * tile.m * tile.n * unit.multiprocessors / (unit.peak * reached);
    for (const double split : how.splits) {
      if (split > 1 && shape.k / split < how.least_k) break;  // splits ascend
      const double n = blocks * split / unit.multiprocessors;
      const double rounds = how.q * std::ceil(n) + (1 - how.q) * std::max(n, 1.0);
      double time = rounds * area * (std::ceil(shape.k / split) + how.k0);
      if (split > 1) time += 8 * split * shape.batch * shape.m * shape.n / how.split_bandwidth;
      least = std::min(least, time);
    }
  }
  return least;
}

double product_bytes(const ProductShape& s, double element) {
  return element * s.batch * (s.m * s.k + s.k * s.n + s.m * s.n);
}

double both(double computing_time, double moving, double overlap) {
  return std::max(computing_time, moving) + overlap * std::min(computing_time, moving);
}

/// Square, for the forms' exponents of 2; equals pow() in the fits.
double squared(double x) { return x * x; }

double slots(double width) {
  const double vectors = width / 4;
  const double block = std::max(32.0, std::pow(2.0, std::ceil(std::log2(std::min(vectors, 1024.0) / 2))));
  return std::ceil(vectors / block) * block / vectors;
}

}  // namespace

double product_seconds(const ProductForm& form, const ProductShape& shape, const KernelUnit& unit, bool wide) {
  const double bandwidth = unit.bandwidth * form.em;
  const Blocking how{.tiles = std::span{kTiles}.first(11),
                     .splits = kSplits,
                     .least_k = 256,
                     .e = form.e,
                     .cm = form.cm,
                     .cn = form.cn,
                     .from_m = 1.0 / 128,
                     .from_n = 1.0 / 128,
                     .best = 1.05,
                     .floor = 0.05,
                     .k0 = form.k0,
                     .q = form.q,
                     .split_bandwidth = bandwidth};
  double c = computing(how, shape, unit);
  if (wide) c *= 1 + form.h / (1 + std::pow(form.n0 / shape.n, 3)) * std::pow(shape.m / 4096, form.gam);
  const double time = both(c, product_bytes(shape, unit.element) / bandwidth, form.o);
  return time * (1 + (form.r - 1) / (1 + squared(form.tau_ms * 1e-3 / time)));
}

double half_product_seconds(const HalfProductForm& form, const ProductShape& shape, const KernelUnit& unit, bool wide) {
  constexpr double kEm = 0.85;
  const Blocking how{.tiles = kTiles,
                     .splits = std::span{kPowers}.first(4),
                     .least_k = 256,
                     .e = form.e,
                     .cm = form.c,
                     .cn = form.c,
                     .from_m = 1.0 / 128,
                     .from_n = 1.0 / 256,
                     .best = 1,
                     .floor = 0.05,
                     .k0 = form.tile_ps * 1e-12 * unit.peak / (2 * unit.multiprocessors),
                     .q = form.q,
                     .split_bandwidth = unit.bandwidth * kEm};
  const double moving = product_bytes(shape, unit.element) / (unit.bandwidth * kEm);
  return both(computing(how, shape, unit), moving, form.o) * (wide ? form.across : 1);
}

namespace {

/// Product with a partly hot cache, as in the forms fitted to DeepBench.
double cached_product(const NarrowForm& f, const ProductShape& shape, double bytes, const KernelUnit& unit) {
  const Blocking how{.tiles = kTiles,
                     .splits = kPowers,
                     .least_k = f.ks,
                     .e = f.e,
                     .cm = f.c,
                     .cn = f.c,
                     .from_m = 1.0 / 128,
                     .from_n = 1.0 / 128,
                     .best = 1.05,
                     .floor = 0.1,
                     .k0 = f.k0,
                     .q = f.q,
                     .split_bandwidth = unit.bandwidth * f.em * f.lx};
  const double hot = 1 / (1 + squared(bytes / unit.cache));
  return both(computing(how, shape, unit), bytes / (unit.bandwidth * f.em * (1 + (f.lx - 1) * hot)), f.o);
}

}  // namespace

double narrow_seconds(const NarrowForm& form, const ProductShape& shape, bool transposed, const KernelUnit& unit) {
  return cached_product(form, shape, product_bytes(shape, unit.element), unit) * (transposed ? form.ta : 1);
}

double softmax_seconds(const SoftmaxForm& form, double rows, double width, const KernelUnit& unit) {
  const double bytes = unit.element * rows * width;
  if (width <= 1024) return 2 * bytes / (unit.bandwidth * form.u1);
  const double passes = 2 + form.p / (1 + std::pow(form.h0 / width, form.k));
  return bytes * passes * (1 + form.a * (slots(width) - 1)) / (unit.bandwidth * form.u2);
}

double layer_norm_seconds(const LayerNormForm& form, double rows, double width, const KernelUnit& unit) {
  const double passes = 2 + form.p / (1 + std::pow(form.h0 / width, form.k));
  const double idle = 1 + form.short_rows * std::max(0.0, 1024 / width - 1);
  return unit.element * rows * width * passes * (1 + form.a * (slots(width) - 1)) * idle / (unit.bandwidth * form.u);
}

double elementwise_seconds(const ElementwiseForm& form, ElementwiseKind kind, double bytes, const KernelUnit& unit) {
  const std::array<double, 3> shares{form.u_two, form.u_one, form.u_power};
  return bytes / (unit.bandwidth * shares[static_cast<std::size_t>(kind)]);
}

namespace {

/// Time of a convolution in one direction: the minimum over algorithms.
class ConvolutionTime {
 public:
  ConvolutionTime(const ConvolutionForm& form, const ConvolutionShape& shape, ConvolutionWay way,
                  const KernelUnit& unit)
      : form_(form), s_(shape), way_(way), unit_(unit), tensor_cores_(unit.peak > 50e12) {
    const std::array<double, 3> shares{1, form.d1, form.d2}, splits{form.ks0, form.ks1, form.ks2},
        waves{form.q0, form.q1, form.q2};
    const auto at = static_cast<std::size_t>(way);
    product_ = {form.e * shares[at], form.c, form.k0, waves[at], form.em, 1, form.o, 0, splits[at], 1};
    bytes_ = unit.element * s_.groups *
             (s_.n * s_.c * s_.h * s_.w + s_.n * s_.k * s_.oh * s_.ow + s_.k * s_.c * s_.r * s_.s);
    direct_ = cached_product(product_, direct_shape(), bytes_, unit);
  }

  double seconds() const {
    if (s_.groups > 1 && s_.c <= kThin) return thin(form_.e);
    double time = way_ == ConvolutionWay::data ? data_time() : direct_;
    if (s_.r == 3 && s_.s == 3 && s_.stride_h == 1 && s_.stride_w == 1 && s_.groups == 1)
      time = std::min({time, direct_ / (2.25 * (way_ == ConvolutionWay::filter ? form_.w2 : form_.wf)), winograd()});
    const bool aligned = std::fmod(s_.c, 8) == 0 && std::fmod(s_.k, 8) == 0;
    if (unit_.element == 2 && tensor_cores_ && !aligned)
      time = std::max(time, flops() / (unit_.peak / 8 * form_.alpha));
    return time;
  }

 private:
  static constexpr double kThin = 4;  // channels

  double flops() const { return 2 * s_.groups * s_.n * s_.oh * s_.ow * s_.k * s_.c * s_.r * s_.s; }
  /// A direct kernel without tensor cores, at a share of the peak.
  double thin(double share) const {
    const double peak = tensor_cores_ ? unit_.peak / 8 : unit_.peak;
    return std::max(bytes_ / (unit_.bandwidth * form_.em), flops() / (peak * share));
  }

  ProductShape direct_shape() const {
    switch (way_) {
      case ConvolutionWay::data:
        return {s_.groups, s_.n * s_.h * s_.w, s_.c, s_.k * s_.r * s_.s / (s_.stride_w * s_.stride_h)};
      case ConvolutionWay::filter:
        return {s_.groups, s_.c * s_.r * s_.s, s_.k, s_.n * s_.oh * s_.ow};
      case ConvolutionWay::forward:
        break;
    }
    return {s_.groups, s_.n * s_.oh * s_.ow, s_.k, s_.c * s_.r * s_.s};
  }

  double data_time() const {
    if (s_.c <= kThin) return thin(form_.ws);
    if (s_.stride_w * s_.stride_h <= 1) return direct_;
    return direct_ * (s_.r * s_.s == 1 ? form_.st : form_.st2);
  }

  /// Winograd F(4x4, 3x3): 36 batched products, instead of 144 multiplications per tile.
  double winograd() const {
    const double tiles = s_.n * std::ceil(s_.oh / 4) * std::ceil(s_.ow / 4);
    ProductShape shape{36, tiles, s_.k, s_.c};
    if (way_ == ConvolutionWay::data) shape = {36, tiles, s_.c, s_.k};
    if (way_ == ConvolutionWay::filter) shape = {36, s_.c, s_.k, tiles};
    const double bytes = unit_.element * 36 * (tiles * s_.c + tiles * s_.k + s_.c * s_.k);
    NarrowForm product = product_;
    product.e *= form_.wn;
    return cached_product(product, shape, bytes, unit_) +
           (bytes_ + 2 * bytes) * form_.wb / (unit_.bandwidth * form_.em);
  }

  const ConvolutionForm& form_;
  const ConvolutionShape& s_;
  const ConvolutionWay way_;
  const KernelUnit& unit_;
  const bool tensor_cores_;
  NarrowForm product_{};
  double bytes_ = 0, direct_ = 0;
};

}  // namespace

double convolution_seconds(const ConvolutionForm& form, const ConvolutionShape& shape, ConvolutionWay way,
                           const KernelUnit& unit) {
  return ConvolutionTime{form, shape, way, unit}.seconds();
}

double recurrent_seconds(const RecurrentForm& form, double steps, double weights, double flops, bool backward,
                         const KernelUnit& unit) {
  const double moving = weights / (unit.bandwidth * (backward ? form.back_x1 : form.x1));
  const double computing_time = flops / (unit.peak * (backward ? form.back_x2 : form.x2));
  const double floor = 1e-6 * (backward ? form.back_floor_us : form.floor_us);
  return steps * (floor + std::pow(std::pow(moving, 4) + std::pow(computing_time, 4), 0.25));
}

}  // namespace trainyard
