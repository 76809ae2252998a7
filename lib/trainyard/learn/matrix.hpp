#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainyard/core/portable_math.hpp"

namespace trainyard::learn {

/// Rows are items (nodes, steps), columns are features.
template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Index = Eigen::Index;

inline Index index(std::size_t i) { return static_cast<Index>(i); }

/// A list of row numbers for each row: its neighbours, or the members of a set.
class RowLists {
 public:
  void add(std::span<const std::uint32_t> items) {
    items_.insert(items_.end(), items.begin(), items.end());
    first_.push_back(static_cast<std::uint32_t>(items_.size()));
  }
  void add_item(std::uint32_t item) { items_.push_back(item); }
  void end_row() { first_.push_back(static_cast<std::uint32_t>(items_.size())); }
  std::size_t rows() const { return first_.size() - 1; }
  std::span<const std::uint32_t> operator[](std::size_t row) const {
    return std::span{items_}.subspan(first_[row], first_[row + 1] - first_[row]);
  }

 private:
  std::vector<std::uint32_t> first_{0};
  std::vector<std::uint32_t> items_;
};

/// Factor 1 / sqrt(n) for a sum over n rows, so that its magnitude does not grow with the graph; 0 for n = 0.
template <class Scalar>
Scalar sum_scale(std::size_t n) {
  return n == 0 ? Scalar{0} : Scalar{1} / std::sqrt(static_cast<Scalar>(n));
}

/// 1 / (1 + e^-x) and tanh x, with the same bits on every machine.
template <class Scalar>
Scalar sigmoid(Scalar x) {
  const double e = portable_exp(-std::min(std::abs(static_cast<double>(x)), 700.0));
  return static_cast<Scalar>(x >= 0 ? 1 / (1 + e) : e / (1 + e));
}
template <class Scalar>
Scalar hyperbolic_tangent(Scalar x) {
  return 2 * sigmoid(2 * x) - 1;
}
/// A rational approximation (Eigen's) that compilers vectorize. Its error is below 5e-7, which suffices for a policy.
template <>
inline float hyperbolic_tangent(float x) {
  constexpr float kEnd = 7.9F;  // beyond this it is 1
  x = std::min(std::max(x, -kEnd), kEnd);
  const float square = x * x;
  float above = -2.76076847742355e-16F;
  for (const float c : {2.00018790482477e-13F, -8.60467152213735e-11F, 5.12229709037114e-08F, 1.48572235717979e-05F,
                        6.37261928875436e-04F, 4.89352455891786e-03F})
    above = above * square + c;
  float below = 1.19825839466702e-06F;
  for (const float c : {1.18534705686654e-04F, 2.26843463243900e-03F, 4.89352518554385e-03F})
    below = below * square + c;
  return x * above / below;
}
template <>
inline float sigmoid(float x) {
  return 0.5F + 0.5F * hyperbolic_tangent(0.5F * x);
}

template <class Scalar>
inline constexpr Scalar kLeak = Scalar{0.1F};
template <class Scalar>
Matrix<Scalar> leaky_relu(const Matrix<Scalar>& x) {
  return x.cwiseMax(kLeak<Scalar> * x);
}

/// Each column minus its mean, divided by its standard deviation; 0 if all values of the column are equal.
template <class Scalar>
Matrix<Scalar> standardized(const Matrix<double>& x) {
  Matrix<Scalar> y = Matrix<Scalar>::Zero(x.rows(), x.cols());
  for (Index column = 0; column < x.cols(); ++column) {
    const double rows = static_cast<double>(x.rows());
    double sum = 0, squares = 0, largest = 0;
    for (Index row = 0; row < x.rows(); ++row) sum += x(row, column);
    for (Index row = 0; row < x.rows(); ++row) {
      const double off = x(row, column) - sum / rows;
      squares += off * off;
      largest = std::max(largest, std::abs(x(row, column)));
    }
    const double deviation = std::sqrt(squares / std::max(1.0, rows));
    if (deviation <= 1e-9 * largest) continue;
    for (Index row = 0; row < x.rows(); ++row)
      y(row, column) = static_cast<Scalar>((x(row, column) - sum / rows) / deviation);
  }
  return y;
}

/// Makes Eigen use the same block sizes for products whatever caches the machine has, so that sums have one order.
inline void fix_block_sizes() {
  static const bool done = (Eigen::setCpuCacheSizes(32 << 10, 256 << 10, 2 << 20), true);
  (void)done;
}

}  // namespace trainyard::learn
