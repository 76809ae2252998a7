#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "profiler/kernels/cpu/team.hpp"

namespace trainyard::cpu {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;

inline MatrixMap matrix(float* data, std::int64_t rows, std::int64_t columns) {
  return {data, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns)};
}
inline Eigen::Map<Eigen::VectorXf> column(float* data, std::int64_t rows) {
  return {data, static_cast<Eigen::Index>(rows)};
}

/// to = (or +=) a b, each transposed first if `turned`. The op's threads share the rows of the result.
inline void multiply(const MatrixMap& a, bool a_turned, const MatrixMap& b, bool b_turned, MatrixMap to, bool add) {
  in_parallel(to.rows(), 8, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t count = last - first;
    auto rows = to.middleRows(first, count);
    const auto assign = [&](const auto& product) {
      if (add)
        rows.noalias() += product;
      else
        rows.noalias() = product;
    };
    if (a_turned && b_turned)
      assign(a.middleCols(first, count).transpose() * b.transpose());
    else if (a_turned)
      assign(a.middleCols(first, count).transpose() * b);
    else if (b_turned)
      assign(a.middleRows(first, count) * b.transpose());
    else
      assign(a.middleRows(first, count) * b);
  });
}

}  // namespace trainyard::cpu
