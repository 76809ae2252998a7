#include "trainyard/learn/product.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

namespace trainyard::learn {
namespace {

template <class Scalar>
void plain_product(const Scalar* x, std::size_t rows, std::size_t in, const Scalar* w, std::size_t out,
                   std::size_t first, Scalar* y) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t k = 0; k < in; ++k) {
      const Scalar factor = x[r * in + k];
      for (std::size_t c = first; c < out; ++c) y[r * out + c] += factor * w[k * out + c];
    }
}

template <class Scalar>
void plain_product_of_columns(const Scalar* x, std::size_t rows, std::size_t in, const Scalar* y, std::size_t out,
                              std::size_t first, Scalar* w) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t k = 0; k < in; ++k) {
      const Scalar factor = x[r * in + k];
      for (std::size_t c = first; c < out; ++c) w[k * out + c] += factor * y[r * out + c];
    }
}

// 8 numbers, which GCC and clang keep in one or more registers, depending on the machine.
constexpr std::size_t kLane = 8;
using Lane = float __attribute__((vector_size(kLane * sizeof(float))));

/// kMany rows of two lanes. All indices are constants, so that the lanes are kept in registers.
template <class Which>
struct Tile;
template <std::size_t... kIndex>
struct Tile<std::index_sequence<kIndex...>> {
  static constexpr std::size_t kMany = sizeof...(kIndex);
  Lane low[kMany], high[kMany];

  [[gnu::always_inline]] void load(const float* from, std::size_t stride) {
    ((std::memcpy(&low[kIndex], from + kIndex * stride, sizeof(Lane)),
      std::memcpy(&high[kIndex], from + kIndex * stride + kLane, sizeof(Lane))),
     ...);
  }
  [[gnu::always_inline]] void store(float* to, std::size_t stride) const {
    ((std::memcpy(to + kIndex * stride, &low[kIndex], sizeof(Lane)),
      std::memcpy(to + kIndex * stride + kLane, &high[kIndex], sizeof(Lane))),
     ...);
  }
  /// Adds factors[i * stride] times `row` to row i.
  [[gnu::always_inline]] void add(const float* factors, std::size_t stride, const float* row) {
    Lane a, b;
    std::memcpy(&a, row, sizeof a);
    std::memcpy(&b, row + kLane, sizeof b);
    ((low[kIndex] += factors[kIndex * stride] * a, high[kIndex] += factors[kIndex * stride] * b), ...);
  }
};
constexpr std::size_t kBlock = 2 * kLane;

/// y += x w, for the columns that fill whole blocks.
template <class Many, class One = Tile<std::make_index_sequence<1>>>
[[gnu::always_inline]] inline void block_product(const float* x, std::size_t rows, std::size_t in, const float* w,
                                                 std::size_t out, float* y) {
  for (std::size_t column = 0; column + kBlock <= out; column += kBlock) {
    std::size_t r = 0;
    for (; r + Many::kMany <= rows; r += Many::kMany) {
      Many sums;
      sums.load(y + r * out + column, out);
      for (std::size_t k = 0; k < in; ++k) sums.add(x + r * in + k, in, w + k * out + column);
      sums.store(y + r * out + column, out);
    }
    for (; r < rows; ++r) {
      One sum;
      sum.load(y + r * out + column, out);
      for (std::size_t k = 0; k < in; ++k) sum.add(x + r * in + k, in, w + k * out + column);
      sum.store(y + r * out + column, out);
    }
  }
}

/// w += x^T y, for the columns that fill whole blocks.
template <class Many, class One = Tile<std::make_index_sequence<1>>>
[[gnu::always_inline]] inline void block_product_of_columns(const float* x, std::size_t rows, std::size_t in,
                                                            const float* y, std::size_t out, float* w) {
  for (std::size_t column = 0; column + kBlock <= out; column += kBlock) {
    std::size_t k = 0;
    for (; k + Many::kMany <= in; k += Many::kMany) {
      Many sums;
      sums.load(w + k * out + column, out);
      for (std::size_t r = 0; r < rows; ++r) sums.add(x + r * in + k, 1, y + r * out + column);
      sums.store(w + k * out + column, out);
    }
    for (; k < in; ++k) {
      One sum;
      sum.load(w + k * out + column, out);
      for (std::size_t r = 0; r < rows; ++r) sum.add(x + r * in + k, 1, y + r * out + column);
      sum.store(w + k * out + column, out);
    }
  }
}

using Narrow = Tile<std::make_index_sequence<2>>;
using Wide = Tile<std::make_index_sequence<4>>;

#if defined(__x86_64__)
[[gnu::target("avx2")]] void wide_product(const float* x, std::size_t rows, std::size_t in, const float* w,
                                          std::size_t out, float* y) {
  block_product<Wide>(x, rows, in, w, out, y);
}
[[gnu::target("avx2")]] void wide_product_of_columns(const float* x, std::size_t rows, std::size_t in, const float* y,
                                                     std::size_t out, float* w) {
  block_product_of_columns<Wide>(x, rows, in, y, out, w);
}
bool is_wide() {
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  return wide;
}
#endif

void product(const float* x, std::size_t rows, std::size_t in, const float* w, std::size_t out, float* y) {
#if defined(__x86_64__)
  if (is_wide()) return wide_product(x, rows, in, w, out, y);
#endif
  block_product<Narrow>(x, rows, in, w, out, y);
}
void product_of_columns(const float* x, std::size_t rows, std::size_t in, const float* y, std::size_t out, float* w) {
#if defined(__x86_64__)
  if (is_wide()) return wide_product_of_columns(x, rows, in, y, out, w);
#endif
  block_product_of_columns<Narrow>(x, rows, in, y, out, w);
}

}  // namespace

template <class Scalar>
void add_product(Rows<Scalar> x, const Matrix<Scalar>& w, Scalar* y) {
  const auto out = static_cast<std::size_t>(w.cols());
  std::size_t done = 0;
  if constexpr (std::is_same_v<Scalar, float>) {
    product(x.data, x.count, x.width, w.data(), out, y);
    done = out / kBlock * kBlock;
  }
  if (done < out) plain_product(x.data, x.count, x.width, w.data(), out, done, y);
}

template <class Scalar>
void add_product_of_columns(Rows<Scalar> x, const Scalar* y, Matrix<Scalar>& w) {
  const auto out = static_cast<std::size_t>(w.cols());
  std::size_t done = 0;
  if constexpr (std::is_same_v<Scalar, float>) {
    product_of_columns(x.data, x.count, x.width, y, out, w.data());
    done = out / kBlock * kBlock;
  }
  if (done < out) plain_product_of_columns(x.data, x.count, x.width, y, out, done, w.data());
}

template void add_product(Rows<float>, const Matrix<float>&, float*);
template void add_product(Rows<double>, const Matrix<double>&, double*);
template void add_product_of_columns(Rows<float>, const float*, Matrix<float>&);
template void add_product_of_columns(Rows<double>, const double*, Matrix<double>&);

}  // namespace trainyard::learn
