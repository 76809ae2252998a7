#include "trainyard/learn/product.hpp"

#include <doctest/doctest.h>

#include "support/support.hpp"
#include "trainyard/core/random.hpp"

using namespace trainyard;
using namespace trainyard::learn;

namespace {

template <class Scalar>
Matrix<Scalar> random_matrix(std::size_t rows, std::size_t columns, Random& random) {
  Matrix<Scalar> m(index(rows), index(columns));
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = static_cast<Scalar>(random.normal());
  return m;
}

/// start + a b, adding term after term with each product rounded.
template <class Scalar>
Matrix<Scalar> sums(const Matrix<Scalar>& start, const Matrix<Scalar>& a, const Matrix<Scalar>& b) {
  Matrix<Scalar> y = start;
  for (Index r = 0; r < a.rows(); ++r)
    for (Index c = 0; c < b.cols(); ++c)
      for (Index k = 0; k < a.cols(); ++k) y(r, c) = y(r, c) + static_cast<Scalar>(a(r, k) * b(k, c));
  return y;
}

template <class Scalar>
void check_products() {
  Random random{1};
  for (int round = 0; round < test::rounds(200); ++round) {
    const std::size_t n = random.below(20), in = 1 + random.below(20), out = 1 + random.below(40);
    CAPTURE(n);
    CAPTURE(in);
    CAPTURE(out);
    const auto x = random_matrix<Scalar>(n, in, random), w = random_matrix<Scalar>(in, out, random);
    const auto start = random_matrix<Scalar>(n, out, random);
    Matrix<Scalar> y = start;
    add_product<Scalar>(x, w, y.data());
    CHECK(y == sums<Scalar>(start, x, w));
    Matrix<Scalar> gradient = w;
    add_product_of_columns<Scalar>(x, y.data(), gradient);
    CHECK(gradient == sums<Scalar>(w, x.transpose(), y));
  }
}

}  // namespace

TEST_CASE("products of rows have each sum in order, to the bit, whatever the sizes") {
  check_products<float>();
  check_products<double>();
}
