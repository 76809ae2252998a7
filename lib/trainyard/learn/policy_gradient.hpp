#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "trainyard/core/random.hpp"
#include "trainyard/learn/matrix.hpp"

namespace trainyard::learn {

/// Softmax of the logits over the choices in `allowed` (empty: all); 0 for the others.
template <class Scalar, class Row>
std::vector<double> probabilities(const Row& logits, std::span<const std::uint8_t> allowed) {
  std::vector<double> p(static_cast<std::size_t>(logits.size()), 0.0);
  double top = -1e300, sum = 0;
  const auto may = [&](std::size_t i) { return allowed.empty() || allowed[i] != 0; };
  for (std::size_t i = 0; i < p.size(); ++i)
    if (may(i)) top = std::max(top, static_cast<double>(logits(index(i))));
  for (std::size_t i = 0; i < p.size(); ++i)
    if (may(i)) sum += p[i] = portable_exp(std::max(-700.0, static_cast<double>(logits(index(i))) - top));
  for (double& x : p) x /= sum;
  return p;
}

/// Samples a choice by its probability.
inline std::size_t draw(std::span<const double> p, Random& random) {
  double left = random.uniform();
  std::size_t last = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] <= 0) continue;
    last = i;
    if (left < p[i]) return i;
    left -= p[i];
  }
  return last;
}

/// The most probable choice; ties go to the first.
inline std::size_t most_probable(std::span<const double> p) {
  return static_cast<std::size_t>(std::ranges::max_element(p) - p.begin());
}

/// The first choice that is allowed.
inline std::size_t first_set(std::span<const std::uint8_t> allowed) {
  return static_cast<std::size_t>(std::ranges::find_if(allowed, [](std::uint8_t a) { return a != 0; }) -
                                  allowed.begin());
}

/// -sum p log p
inline double entropy(std::span<const double> p) {
  double sum = 0;
  for (const double x : p)
    if (x > 0) sum -= x * portable_log(x);
  return sum;
}

/// Writes to `gradient` the derivative of  -weight log p[action] - bonus entropy(p)  with respect to the logits:
///
///     weight (p_j - [j = action]) + bonus p_j (log p_j + entropy(p))
template <class Row>
void choice_gradient(std::span<const double> p, std::size_t action, double weight, double bonus, Row&& gradient) {
  const double h = entropy(p);
  for (std::size_t j = 0; j < p.size(); ++j) {
    double g = weight * (p[j] - (j == action ? 1 : 0));
    if (p[j] > 0) g += bonus * p[j] * (portable_log(p[j]) + h);
    gradient(index(j)) = static_cast<typename std::decay_t<Row>::Scalar>(g);
  }
}

}  // namespace trainyard::learn
