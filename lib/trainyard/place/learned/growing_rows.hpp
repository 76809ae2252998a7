#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "trainyard/learn/layers.hpp"
#include "trainyard/learn/parameters.hpp"
#include "trainyard/learn/product.hpp"

namespace trainyard::learned {

/// A matrix that grows by rows. Pointers into it are valid until it grows.
template <class Scalar>
class GrowingRows {
 public:
  explicit GrowingRows(std::size_t width = 0) : width_(width) {}

  /// Appends `count` rows, for the caller to fill. Returns the first one.
  Scalar* append(std::size_t count) {
    const std::size_t first = numbers_.size();
    if (first + count * width_ > numbers_.capacity())
      numbers_.reserve(std::max(first + count * width_, 2 * numbers_.capacity()));
    numbers_.resize(first + count * width_);
    return numbers_.data() + first;
  }
  const Scalar* row(std::size_t i) const { return numbers_.data() + i * width_; }
  Scalar* row(std::size_t i) { return numbers_.data() + i * width_; }
  std::size_t width() const { return width_; }
  std::size_t size() const { return width_ == 0 ? 0 : numbers_.size() / width_; }
  learn::Rows<Scalar> rows() const { return last(size()); }
  learn::Rows<Scalar> last(std::size_t count) const { return {row(size() - count), count, width_}; }
  learn::Matrix<Scalar> matrix() const {
    return Eigen::Map<const learn::Matrix<Scalar>>(numbers_.data(), learn::index(size()), learn::index(width_));
  }

 private:
  std::size_t width_;
  std::vector<Scalar> numbers_;
};

/// to += scale * from, `width` numbers.
template <class Scalar>
void add_scaled(const Scalar* from, std::size_t width, Scalar scale, Scalar* to) {
  for (std::size_t i = 0; i < width; ++i) to[i] += scale * from[i];
}

/// Appends the rows x W + b; append_dense_relu() appends max(0, x W + b).
template <class Scalar>
void append_dense(const learn::Parameters<Scalar>& parameters, const learn::Dense& layer, learn::Rows<Scalar> x,
                  GrowingRows<Scalar>& y) {
  const Scalar* bias = parameters[layer.bias].data();
  Scalar* const first = y.append(x.count);
  for (std::size_t r = 0; r < x.count; ++r) std::copy_n(bias, y.width(), first + r * y.width());
  learn::add_product(x, parameters[layer.weight], first);
}
template <class Scalar>
void append_dense_relu(const learn::Parameters<Scalar>& parameters, const learn::Dense& layer, learn::Rows<Scalar> x,
                       GrowingRows<Scalar>& y) {
  append_dense(parameters, layer, x, y);
  Scalar* const first = y.row(y.size() - x.count);
  for (std::size_t i = 0; i < x.count * y.width(); ++i) first[i] = std::max(first[i], Scalar{0});
}

/// Backward pass through y = relu(x W + b). back_through_relu() sets `dy` to 0 where the ReLU does.
/// back_through_dense() adds to the parameters' gradients and, unless it is null, to dx.
template <class Scalar>
void back_through_dense(const learn::Parameters<Scalar>& parameters, const learn::Dense& layer, learn::Rows<Scalar> x,
                        learn::Matrix<Scalar>& dy, learn::Gradients<Scalar>& gradients, learn::Matrix<Scalar>* dx) {
  learn::add_product_of_columns(x, dy.data(), gradients[layer.weight]);
  Scalar* const bias = gradients[layer.bias].data();
  const auto width = static_cast<std::size_t>(dy.cols());
  for (std::size_t r = 0; r < x.count; ++r) add_scaled(dy.data() + r * width, width, Scalar{1}, bias);
  if (!dx) return;
  const learn::Matrix<Scalar> transposed = parameters[layer.weight].transpose();
  learn::add_product({dy}, transposed, dx->data());
}
template <class Scalar>
void back_through_relu(const GrowingRows<Scalar>& y, learn::Matrix<Scalar>& dy) {
  const Scalar* value = y.row(0);
  for (learn::Index i = 0; i < dy.size(); ++i)
    if (value[i] <= 0) dy.data()[i] = 0;
}

}  // namespace trainyard::learned
