#pragma once

#include <Eigen/Core>
#include <cstdint>

namespace trainyard::cpu {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;

inline MatrixMap matrix(float* data, std::int64_t rows, std::int64_t columns) {
  return {data, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns)};
}
inline Eigen::Map<Eigen::VectorXf> column(float* data, std::int64_t rows) {
  return {data, static_cast<Eigen::Index>(rows)};
}

/// to = (or +=) a b, each transposed first where asked for.
inline void multiply(const MatrixMap& a, bool a_turned, const MatrixMap& b, bool b_turned, MatrixMap to, bool add) {
  const auto assign = [&](const auto& product) {
    if (add)
      to.noalias() += product;
    else
      to.noalias() = product;
  };
  if (a_turned && b_turned)
    assign(a.transpose() * b.transpose());
  else if (a_turned)
    assign(a.transpose() * b);
  else if (b_turned)
    assign(a * b.transpose());
  else
    assign(a * b);
}

}  // namespace trainyard::cpu
