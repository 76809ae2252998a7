#pragma once

#include <cstddef>

#include "trainyard/learn/matrix.hpp"

namespace trainyard::learn {

/// View of a matrix in row-major order.
template <class Scalar>
struct Rows {
  const Scalar* data = nullptr;
  std::size_t count = 0, width = 0;

  Rows() = default;
  Rows(const Scalar* rows, std::size_t rows_count, std::size_t rows_width)
      : data(rows), count(rows_count), width(rows_width) {}
  Rows(const Matrix<Scalar>& matrix)  // NOLINT: a matrix is rows
      : data(matrix.data()),
        count(static_cast<std::size_t>(matrix.rows())),
        width(static_cast<std::size_t>(matrix.cols())) {}
};

/// Products of many rows with a small matrix, faster than Eigen's at these sizes. Every sum is taken from the first
/// term to the last on every machine, and products are rounded before they are added: the results are the same bits
/// with wide registers and with narrow ones.
///
///     y += x w         x: n x in, w: in x out, y: n x out, all in row-major order
template <class Scalar>
void add_product(Rows<Scalar> x, const Matrix<Scalar>& w, Scalar* y);

///     w += x^T y       x: n x in, y: n x out
template <class Scalar>
void add_product_of_columns(Rows<Scalar> x, const Scalar* y, Matrix<Scalar>& w);

extern template void add_product(Rows<float>, const Matrix<float>&, float*);
extern template void add_product(Rows<double>, const Matrix<double>&, double*);
extern template void add_product_of_columns(Rows<float>, const float*, Matrix<float>&);
extern template void add_product_of_columns(Rows<double>, const double*, Matrix<double>&);

}  // namespace trainyard::learn
