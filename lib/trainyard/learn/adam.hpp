#pragma once

#include <cmath>

#include "trainyard/learn/parameters.hpp"

namespace trainyard::learn {

/// Adam (Kingma and Ba, 2015), minimizing:
///
///     m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
///     w <- w - rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
template <class Scalar>
class Adam {
 public:
  explicit Adam(const Parameters<Scalar>& parameters)
      : mean_(zero_gradients(parameters)), square_(zero_gradients(parameters)) {}

  void step(Parameters<Scalar>& parameters, const Gradients<Scalar>& gradients, double rate) {
    power1_ *= kDecay1;
    power2_ *= kDecay2;
    const auto scale1 = static_cast<Scalar>(rate / (1 - power1_));
    const auto scale2 = static_cast<Scalar>(1 / (1 - power2_));
    const auto decay1 = static_cast<Scalar>(kDecay1), decay2 = static_cast<Scalar>(kDecay2);
    for (std::size_t p = 0; p < gradients.size(); ++p)
      for (Index i = 0; i < gradients[p].size(); ++i) {
        const Scalar g = gradients[p].data()[i];
        Scalar& m = mean_[p].data()[i];
        Scalar& v = square_[p].data()[i];
        m = decay1 * m + (1 - decay1) * g;
        v = decay2 * v + (1 - decay2) * g * g;
        parameters[p].data()[i] -= scale1 * m / (std::sqrt(scale2 * v) + static_cast<Scalar>(kEpsilon));
      }
  }

 private:
  static constexpr double kDecay1 = 0.9, kDecay2 = 0.999, kEpsilon = 1e-8;

  Gradients<Scalar> mean_, square_;
  double power1_ = 1, power2_ = 1;
};

}  // namespace trainyard::learn
