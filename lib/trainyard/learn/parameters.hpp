#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/learn/matrix.hpp"

namespace trainyard::learn {

template <class Scalar>
struct Parameter {
  std::string name;
  Matrix<Scalar> value;
};

/// The parameters of a network: named matrices, by index.
template <class Scalar>
class Parameters {
 public:
  /// Adds a parameter with entries uniform in +-sqrt(6 / (rows + columns)) (Glorot and Bengio, 2010); returns its
  /// index.
  std::size_t add(std::string name, std::size_t rows, std::size_t columns, Random& random) {
    const double bound = std::sqrt(6.0 / static_cast<double>(rows + columns));
    Matrix<Scalar> value(index(rows), index(columns));
    for (Index i = 0; i < value.size(); ++i) value.data()[i] = static_cast<Scalar>((2 * random.uniform() - 1) * bound);
    list_.push_back({std::move(name), std::move(value)});
    return list_.size() - 1;
  }
  std::size_t add_zero(std::string name, std::size_t rows, std::size_t columns) {
    list_.push_back({std::move(name), Matrix<Scalar>::Zero(index(rows), index(columns))});
    return list_.size() - 1;
  }

  std::size_t size() const { return list_.size(); }
  const Matrix<Scalar>& operator[](std::size_t i) const { return list_[i].value; }
  Matrix<Scalar>& operator[](std::size_t i) { return list_[i].value; }
  const std::string& name(std::size_t i) const { return list_[i].name; }
  /// Total number of matrix entries.
  std::size_t count() const {
    std::size_t sum = 0;
    for (const auto& parameter : list_) sum += static_cast<std::size_t>(parameter.value.size());
    return sum;
  }

 private:
  std::vector<Parameter<Scalar>> list_;
};

/// One matrix per parameter.
template <class Scalar>
using Gradients = std::vector<Matrix<Scalar>>;

template <class Scalar>
Gradients<Scalar> zero_gradients(const Parameters<Scalar>& parameters) {
  Gradients<Scalar> zero;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    zero.push_back(Matrix<Scalar>::Zero(parameters[i].rows(), parameters[i].cols()));
  return zero;
}

template <class Scalar>
void add_to(Gradients<Scalar>& sum, const Gradients<Scalar>& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

/// Scales the gradients down to the norm `most`, taken over all of them, if theirs is larger. Returns the norm before
/// scaling.
template <class Scalar>
double clip_norm(Gradients<Scalar>& gradients, double most) {
  double squares = 0;
  for (const auto& gradient : gradients)
    for (Index i = 0; i < gradient.size(); ++i)
      squares += static_cast<double>(gradient.data()[i]) * static_cast<double>(gradient.data()[i]);
  const double norm = std::sqrt(squares);
  if (norm > most)
    for (auto& gradient : gradients) gradient *= static_cast<Scalar>(most / norm);
  return norm;
}

}  // namespace trainyard::learn
